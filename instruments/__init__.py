"""What perf, training and build_engines share: sentences, the talker's own speech, measures, reports."""
