// Plays samples in the order in which they come, and tells how far it is.

const TOLD_EVERY = 512;

class Speech extends AudioWorkletProcessor {
  constructor() {
    super();
    this.waiting = [];
    this.offset = 0;
    this.played = 0;
    this.told = 0;
    this.dry = 0;
    this.isDry = false;
    this.hasAll = false;
    this.port.onmessage = ({ data }) => {
      if (data === "all") this.hasAll = true;
      else this.waiting.push(data);
    };
  }

  process(inputs, [[out]]) {
    let filled = 0;
    while (filled < out.length && this.waiting.length) {
      const [samples] = this.waiting;
      const count = Math.min(out.length - filled, samples.length - this.offset);
      out.set(samples.subarray(this.offset, this.offset + count), filled);
      filled += count;
      this.offset += count;
      if (this.offset === samples.length) {
        this.waiting.shift();
        this.offset = 0;
      }
    }
    this.played += filled;
    const isOver = this.hasAll && !this.waiting.length;
    const isDry = filled < out.length && !isOver && this.played > 0;
    if (isDry && !this.isDry) this.dry += 1;
    this.isDry = isDry;
    if (isOver || this.played - this.told >= TOLD_EVERY) {
      this.told = this.played;
      this.port.postMessage({ played: this.played, dry: this.dry, isOver });
    }
    return !isOver;
  }
}

registerProcessor("speech", Speech);
