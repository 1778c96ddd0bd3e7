// What the boards on emulators written in JavaScript share: options, a TCP port whose opening resets the board, events, the end.
"use strict";
const fs = require("node:fs");
const net = require("node:net");

const IDLE_MS = 5;

function failing(name) {
  return (message) => {
    process.stderr.write(`${name}: ${message}\n`);
    process.exit(2);
  };
}

function say(event) {
  fs.writeSync(1, JSON.stringify(event) + "\n");
}

function parse(words, usage, fail) {
  const options = {uart: "lifted"};
  for (let i = 0; i < words.length; i += 2) {
    const name = words[i].replace(/^--/, "");
    if (!["image", "uart"].includes(name)) fail(`unknown argument: ${words[i]}`);
    if (words[i + 1] === undefined) fail(`no value for ${words[i]}`);
    options[name] = words[i + 1];
  }
  if (!["lifted", "true"].includes(options.uart)) fail(`--uart is lifted or true, not ${options.uart}`);
  if (!options.image) fail(`no --image; usage: ${usage}`);
  return options;
}

// Bytes on their way to a machine's UART.
class Wire {
  constructor() {
    this.sent = [];
    this.received = [];
    this.next = 0; // index of the byte in `received` that comes next
  }

  feed(bytes) {
    this.received = this.received.slice(this.next).concat([...bytes]);
    this.next = 0;
  }

  get waits() {
    return this.next < this.received.length;
  }

  take() {
    return this.received[this.next++];
  }
}

// `make()`: a machine that has just been reset, with `wire`, `cycles` and `run()`, which goes on for a while.
function serve(make, version) {
  let machine = null, client = null, resets = 0, totalCycles = 0;
  const server = net.createServer((socket) => {
    if (client) client.destroy();
    socket.setNoDelay(true);
    if (machine) totalCycles += machine.cycles;
    machine = make(); // opening the port resets the board
    client = socket;
    ++resets;
    say({event: "reset", why: "port opened"});
    socket.on("data", (bytes) => { if (socket === client) machine.wire.feed(bytes); });
    socket.on("error", () => socket.destroy());
    socket.on("close", () => { if (socket === client) client = null; });
    if (resets === 1) setImmediate(turn);
  });
  function turn() {
    if (client) machine.run();
    if (client && machine.wire.sent.length) client.write(Buffer.from(machine.wire.sent.splice(0)));
    client ? setImmediate(turn) : setTimeout(turn, IDLE_MS);
  }
  function end() {
    if (machine) totalCycles += machine.cycles;
    say({event: "exit", cycles: totalCycles, resets, emulator_version: version});
    process.exit(0);
  }
  process.stdin.resume().on("end", end).on("error", end);
  process.on("SIGTERM", end).on("SIGINT", end);
  server.listen(0, "127.0.0.1", () => say({event: "ready", pty: `socket://127.0.0.1:${server.address().port}`}));
}

module.exports = {failing, parse, Wire, serve};
