// What is heard: samples go to an AudioWorklet as they arrive.

export class Player {
  /** `tell` is called with {playedS, dry, isOver} a few dozen times a second. */
  static async open(rateHz, tell) {
    if (!window.AudioWorkletNode) {
      throw new Error("Browsers play such speech on https, or on this machine (127.0.0.1) alone.");
    }
    const context = new AudioContext({ sampleRate: rateHz, latencyHint: "interactive" });
    await Promise.all([context.resume(), context.audioWorklet.addModule(new URL("worklet.js", import.meta.url))]);
    return new Player(context, tell);
  }

  constructor(context, tell) {
    this.context = context;
    this.node = new AudioWorkletNode(context, "speech", { numberOfInputs: 0, outputChannelCount: [1] });
    this.node.connect(context.destination);
    this.node.port.onmessage = ({ data }) => {
      const latencyS = context.outputLatency || 0;
      const playedS = data.played / context.sampleRate;
      tell({ playedS, heardS: data.isOver ? playedS : playedS - latencyS, dry: data.dry, isOver: data.isOver });
    };
  }

  push(samples) {
    this.node.port.postMessage(samples, [samples.buffer]);
  }

  /** Nothing more comes. */
  end() {
    this.node.port.postMessage("all");
  }

  close() {
    return this.context.state === "closed" ? undefined : this.context.close();
  }
}
