// One utterance over HTTP: server-sent events with its audio, its words and what guessing brought.

export const RATE_HZ = 24000;

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Chunks {samples, words, stats, elapsedMs} as they arrive. */
export async function* speak(asked, key, signal) {
  const began = performance.now();
  const response = await fetch("v1/audio/speech", {
    method: "POST",
    headers: { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) },
    body: JSON.stringify({
      model: "talkahead", response_format: "pcm", sample_rate: RATE_HZ, stream_format: "sse_details", ...asked,
    }),
    signal,
  });
  if (!response.ok) throw new Refused(response.status, await refusal(response));
  let isComplete = false;
  for await (const event of events(response.body)) {
    if (event.type === "speech.audio.done") isComplete = true;
    if (event.type !== "speech.audio.delta") continue;
    const elapsedMs = performance.now() - began;
    yield { samples: decoded(event.audio), words: event.words, stats: event.stats, elapsedMs };
  }
  if (!isComplete) throw new Error("The speech broke off: the server failed, or went away.");
}

export async function refusal(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `${response.status} ${response.statusText}`;
  }
}

async function* events(body) {
  let text = "";
  for await (const part of texts(body)) {
    text += part;
    const whole = text.split("\n\n");
    text = whole.pop();
    for (const event of whole) yield JSON.parse(event.slice("data: ".length));
  }
}

async function* texts(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value;
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Signed 16 bits in base64 to floats. */
function decoded(base64) {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  return Float32Array.from(new Int16Array(bytes.buffer), (sample) => sample / 32768);
}
