"""Where traces go is checked before the server starts, and said as Triton reads it."""

from __future__ import annotations

import pytest
from talkahead.errors import TalkaheadError
from talkahead.launcher.traces import Traces


def test_triton_is_told_in_its_own_words() -> None:
    flags = list(Traces("http://collector:4318/v1/traces", every=100).server_flags)
    assert "--trace-config=mode=opentelemetry" in flags and "--trace-config=rate=100" in flags
    assert "--trace-config=opentelemetry,url=http://collector:4318/v1/traces" in flags


@pytest.mark.parametrize("url", ["collector:4318", "grpc://collector:4317", "http://", "http://a/b,rate=1"])
def test_what_triton_would_send_nowhere_is_refused(url: str) -> None:
    with pytest.raises(TalkaheadError, match=r"--traces: .* is not accepted; allowed: http://HOST:PORT"):
        Traces(url)
