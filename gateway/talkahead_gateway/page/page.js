// The page: what is asked for, and what is seen and heard of it.

import { Player } from "./player.js";
import { RATE_HZ, Refused, refusal, speak } from "./speech.js";

const SAMPLES = [
  "Your table is booked for seven this evening. The second song was written by the same composer, shortly before he left the city.",
  "Dr. Smith paid $45.50 for 3 kg of apples on March 3rd, at 10:30. Didn't he?",
  "A warm wind blew across the harbour as the last boats came home.",
  "The museum is closed on Mondays, but the garden stays open all week. Bread, butter, two lemons and a bottle of milk are on your list. Please hold the line while I look for your account. Would you like me to read the message again?",
];
const PLAIN = { drafter: "none", verifier: "match" };
const MOST_GUESSES_PX = 88;

const at = (id) => document.getElementById(id);
const ms = (value) => `${value.toFixed(0)} ms`;

let stopping = null;

async function fill() {
  const choices = await (await fetch("page/choices.json")).json();
  offer("sample", SAMPLES, (text) => `${text.slice(0, 60)}…`);
  offer("drafter", ["", ...choices.drafters], (name) => name || "the server's own");
  offer("verifier", ["", ...choices.verifiers], (name) => name || "the server's own");
  at("text").value = SAMPLES[0];
  await fillVoices();
}

async function fillVoices() {
  const key = at("key").value;
  const response = await fetch("v1/audio/voices", { headers: key ? { Authorization: `Bearer ${key}` } : {} });
  at("key-field").hidden = response.status !== 401 && !key;
  if (!response.ok) {
    fail(new Refused(response.status, await refusal(response)));
    return;
  }
  const { voices, stored } = await response.json();
  offer("voice", [...voices, ...stored.map((voice) => voice.name)], (name) => name);
}

function offer(id, values, written) {
  at(id).replaceChildren(...values.map((value) => new Option(written(value), value)));
}

function asked() {
  const request = { input: at("text").value, voice: at("voice").value, seed: at("seed").valueAsNumber };
  for (const name of ["drafter", "verifier"]) if (at(name).value) request[name] = at(name).value;
  if (at("speed").valueAsNumber !== 1) request.speed = at("speed").valueAsNumber;
  return request;
}

async function run(event) {
  event?.preventDefault();
  if (stopping || !at("request").reportValidity()) return;
  stopping = new AbortController();
  can({ speak: false, stop: true });
  const request = asked();
  try {
    begin(request.input);
    await hear(request, stopping.signal);
    if (at("compare").checked) await compare(request, stopping.signal);
    tell("All has been heard.");
  } catch (error) {
    if (stopping.signal.aborted) tell("Stopped.");
    else fail(error);
  } finally {
    stopping = null;
    can({ speak: true, stop: false });
  }
}

/** Of buttons: they keep the focus, which they would lose if they were disabled. */
function can(allowed) {
  for (const [id, may] of Object.entries(allowed)) at(id).setAttribute("aria-disabled", String(!may));
}

function stop() {
  stopping?.abort();
}

function tell(text) {
  at("status").textContent = text;
  at("status").classList.remove("wrong");
}

function fail(error) {
  at("status").textContent = error.message;
  at("status").classList.add("wrong");
  if (error.status === 401) at("key-field").hidden = false;
}

// What is heard

function begin(text) {
  tell("Asking …");
  at("words").replaceChildren(document.createTextNode(text));
  at("words").classList.remove("over");
  at("heard").scrollIntoView({ block: "nearest" });
  at("guesses").replaceChildren();
  at("guesses").setAttribute("aria-label", "No guesses yet");
  at("comparison").hidden = true;
  for (const id of ["first", "lead", "dry", "pair", "accepted", "gain"]) at(id).textContent = "–";
}

/** Plays an utterance; resolves when it has been heard to its end. */
async function hear(request, signal) {
  const words = new Words(request.input);
  const run = new Run();
  let heardOut;
  const over = new Promise((resolve, reject) => {
    heardOut = resolve;
    signal.addEventListener("abort", () => reject(signal.reason));
  });
  over.catch(() => {});
  const player = await Player.open(RATE_HZ, ({ playedS, heardS, dry, isOver }) => {
    words.light(heardS, isOver);
    at("lead").textContent = `${Math.max(run.audioS - playedS, 0).toFixed(2)} s`;
    at("dry").textContent = dry === 0 ? "never" : `${dry} times`;
    if (isOver) heardOut();
  });
  try {
    for await (const chunk of speak(request, at("key").value, signal)) {
      run.add(chunk);
      words.add(chunk.words);
      show(run);
      player.push(chunk.samples.slice());
    }
    player.end();
    await over;
  } finally {
    player.close();
  }
  return run;
}

/** What came of an utterance. */
class Run {
  constructor() {
    this.firstMs = null;
    this.totalMs = 0;
    this.audioS = 0;
    this.pieces = [];
    this.stats = null;
    this.guesses = null;
  }

  add({ samples, stats, elapsedMs }) {
    const before = this.stats ?? { drafted: 0, accepted: 0 };
    this.guesses = { drafted: stats.drafted - before.drafted, accepted: stats.accepted - before.accepted };
    this.firstMs ??= elapsedMs;
    this.totalMs = elapsedMs;
    this.audioS += samples.length / RATE_HZ;
    this.pieces.push(samples);
    this.stats = stats;
  }

  get framesPerStep() {
    return 1 + this.stats.accepted / Math.max(this.stats.target_steps, 1);
  }

  get decodeMsPerSecond() {
    return this.stats.decode_us / 1000 / this.audioS;
  }

  /** Whether another has the same samples, one by one. */
  equals(other) {
    const [one, two] = [this, other].map((run) => run.pieces.flatMap((piece) => Array.from(piece)));
    return one.length === two.length && one.every((sample, place) => sample === two[place]);
  }
}

function show(run) {
  const { stats, guesses } = run;
  tell("Speaking …");
  at("first").textContent = ms(run.firstMs);
  at("pair").textContent = stats.pair;
  at("accepted").textContent = stats.drafted ? `${stats.accepted} of ${stats.drafted}` : "none made";
  at("gain").textContent = run.framesPerStep.toFixed(2);
  at("guesses").append(column(guesses));
  at("guesses").setAttribute("aria-label", `${stats.accepted} of ${stats.drafted} guesses accepted so far`);
  scale();
}

function column({ drafted, accepted }) {
  const chunk = document.createElement("div");
  chunk.className = "chunk";
  chunk.title = `${accepted} of ${drafted} accepted`;
  for (const [kind, count] of [["accepted", accepted], ["refused", drafted - accepted]]) {
    const part = document.createElement("div");
    part.className = kind;
    part.dataset.count = count;
    part.hidden = !count;
    chunk.append(part);
  }
  return chunk;
}

/** The highest column fills the height. */
function scale() {
  const parts = [...at("guesses").querySelectorAll("[data-count]")];
  const totals = [...at("guesses").children].map((chunk) =>
    [...chunk.children].reduce((total, part) => total + Number(part.dataset.count), 0));
  const px = MOST_GUESSES_PX / Math.max(...totals, 1);
  for (const part of parts) part.style.height = `${Math.max(Number(part.dataset.count) * px, 2)}px`;
}

// Words

/** The text, whose words are lit as they are said. Places count characters, which may be two of a string's. */
class Words {
  constructor(text) {
    this.characters = Array.from(text);
    this.shown = [];
    this.end = 0;
  }

  add(words) {
    const rest = at("words").lastChild;
    for (const word of words) {
      if (word.kind === "pause" || word.char_end <= this.end) continue;
      const span = document.createElement("span");
      const start = Math.max(word.char_start, this.end);
      span.textContent = this.characters.slice(start, word.char_end).join("");
      rest.before(this.characters.slice(this.end, start).join(""), span);
      this.shown.push({ span, startS: word.start_s });
      this.end = word.char_end;
    }
    rest.textContent = this.characters.slice(this.end).join("");
  }

  light(nowS, isOver) {
    at("words").classList.toggle("over", isOver);
    const begun = this.shown.filter(({ startS }) => startS <= nowS).length;
    this.shown.forEach(({ span }, place) => {
      span.classList.toggle("said", place < begun);
      span.classList.toggle("now", place === begun - 1 && !isOver);
    });
  }
}

// Beside plain decoding

async function compare(request, signal) {
  tell("Comparing with plain decoding …");
  const own = await overhear(request, signal);
  const plain = await overhear({ ...request, ...PLAIN }, signal);
  const rows = [
    ["First chunk", ...[own, plain].map((run) => ms(run.firstMs))],
    ["Last chunk", ...[own, plain].map((run) => ms(run.totalMs))],
    ["Steps of the talker", ...[own, plain].map((run) => String(run.stats.target_steps))],
    ["Frames a step", ...[own, plain].map((run) => run.framesPerStep.toFixed(2))],
    ["Decoding, for a second of speech", ...[own, plain].map((run) => `${run.decodeMsPerSecond.toFixed(1)} ms`)],
    ["The same samples", own.equals(plain) ? "yes, every one" : "no", ""],
  ];
  at("own-pair").textContent = own.stats.pair;
  at("comparison").tBodies[0].replaceChildren(...rows.map(tableRow));
  at("comparison").hidden = false;
}

/** Takes an utterance that nobody hears. */
async function overhear(request, signal) {
  const run = new Run();
  for await (const chunk of speak(request, at("key").value, signal)) run.add(chunk);
  return run;
}

function tableRow([name, ...cells]) {
  const row = document.createElement("tr");
  const head = document.createElement("th");
  head.scope = "row";
  head.textContent = name;
  row.append(head, ...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
  return row;
}

at("request").addEventListener("submit", run);
at("stop").addEventListener("click", stop);
at("sample").addEventListener("change", () => { at("text").value = at("sample").value; });
at("speed").addEventListener("input", () => { at("speed-told").textContent = at("speed").valueAsNumber.toFixed(2); });
at("key").addEventListener("change", fillVoices);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") stop();
  if (event.key === "Enter" && event.ctrlKey) run(event);
});
fill().catch(fail);
