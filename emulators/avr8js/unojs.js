#!/usr/bin/env node
// unojs: an Arduino Uno on avr8js, driven by the harness like emulators/uno. See README.md.
"use strict";
const fs = require("node:fs");
const net = require("node:net");

const CLOCK_HZ = 16e6, FLASH_WORDS = 0x4000, RAM_BYTES = 2048;
const LIFTED_BYTE_CYCLES = 40; // as emulators/uno
const MISSING_ENTRY_CYCLES = 2; // interrupt entry takes 4 cycles (datasheet DS40002061, 7.7.1); avr8js 0.21 charges 2
const SLICE_CYCLES = 20000; // between two looks at the socket
const UCSR0A = 0xc0, UCSR0B = 0xc1, RXC = 0x80, RXCIE = 0x80;

function fail(message) {
  process.stderr.write(`unojs: ${message}\n`);
  process.exit(2);
}

function say(event) {
  process.stdout.write(JSON.stringify(event) + "\n");
}

function parse(words) {
  const options = {uart: "lifted"};
  for (let i = 0; i < words.length; i += 2) {
    const name = words[i].replace(/^--/, "");
    if (!["image", "uart"].includes(name)) fail(`unknown argument: ${words[i]}`);
    if (words[i + 1] === undefined) fail(`no value for ${words[i]}`);
    options[name] = words[i + 1];
  }
  if (!["lifted", "true"].includes(options.uart)) fail(`--uart is lifted or true, not ${options.uart}`);
  if (!options.image) fail("no --image; usage: unojs.js --image FILE.hex [--uart lifted|true]");
  return options;
}

// Intel hex, data and end records only: an image of the Uno's 32 KiB has no others.
function readHex(path) {
  let text;
  try {
    text = fs.readFileSync(path, "latin1");
  } catch (error) {
    fail(`cannot read ${path}: ${error.code}`);
  }
  const flash = new Uint8Array(2 * FLASH_WORDS).fill(0xff);
  for (const [index, line] of text.trim().split(/\r?\n/).entries()) {
    const bytes = Buffer.from(line.slice(1), "hex");
    const sum = bytes.reduce((a, b) => a + b, 0);
    if (line[0] !== ":" || bytes.length !== bytes[0] + 5 || sum % 256) fail(`${path}:${index + 1}: damaged`);
    if (bytes[3] === 1) return new Uint16Array(flash.buffer);
    const address = bytes.readUInt16BE(1);
    if (bytes[3] !== 0 || address + bytes[0] > flash.length) fail(`${path}:${index + 1}: not for this chip`);
    flash.set(bytes.subarray(4, 4 + bytes[0]), address);
  }
  fail(`${path}: no end record`);
}

class Machine {
  constructor(avr, flash, uart) {
    this.avr = avr;
    this.cpu = new avr.CPU(flash, RAM_BYTES);
    this.timer1 = new avr.AVRTimer(this.cpu, avr.timer1Config);
    this.usart = new avr.AVRUSART(this.cpu, avr.usart0Config, CLOCK_HZ);
    this.usart.onByteTransmit = (byte) => this.sent.push(byte);
    this.lifted = uart === "lifted";
    this.sent = [];
    this.received = [];
    this.next = 0; // index of the byte in `received` that comes next
    this.nextDue = 0;
  }

  feed(bytes) {
    this.received = this.received.slice(this.next).concat([...bytes]);
    this.next = 0;
  }

  // A byte comes only when the last one was read and the program listens, so none is ever overrun.
  deliver() {
    const {cpu, usart} = this;
    if (cpu.data[UCSR0A] & RXC || !(cpu.data[UCSR0B] & RXCIE) || usart.rxBusy) return;
    usart.writeByte(this.received[this.next++], this.lifted);
    this.nextDue = cpu.cycles + LIFTED_BYTE_CYCLES;
  }

  run(cycles) {
    const {cpu, avr} = this, end = cpu.cycles + cycles;
    while (cpu.cycles < end) {
      avr.avrInstruction(cpu);
      const sp = cpu.SP;
      cpu.tick();
      if (cpu.SP !== sp) cpu.cycles += MISSING_ENTRY_CYCLES;
      if (this.next < this.received.length && cpu.cycles >= this.nextDue) this.deliver();
    }
  }
}

function serve(avr, flash, options) {
  let machine = null, client = null, resets = 0, totalCycles = 0;
  const server = net.createServer((socket) => {
    if (client) client.destroy();
    socket.setNoDelay(true);
    if (machine) totalCycles += machine.cpu.cycles;
    machine = new Machine(avr, flash, options.uart); // opening the port resets the board
    client = socket;
    ++resets;
    say({event: "reset", why: "port opened"});
    socket.on("data", (bytes) => { if (socket === client) machine.feed(bytes); });
    socket.on("error", () => socket.destroy());
    socket.on("close", () => { if (socket === client) client = null; });
    if (resets === 1) setImmediate(turn);
  });
  function turn() {
    if (client) machine.run(SLICE_CYCLES);
    if (client && machine.sent.length) client.write(Buffer.from(machine.sent.splice(0)));
    client ? setImmediate(turn) : setTimeout(turn, 5);
  }
  function end() {
    if (machine) totalCycles += machine.cpu.cycles;
    const version = require("avr8js/package.json").version;
    fs.writeSync(1, JSON.stringify({event: "exit", cycles: totalCycles, resets, emulator_version: version}) + "\n");
    process.exit(0);
  }
  process.stdin.resume().on("end", end).on("error", end);
  process.on("SIGTERM", end).on("SIGINT", end);
  server.listen(0, "127.0.0.1", () => say({event: "ready", pty: `socket://127.0.0.1:${server.address().port}`}));
}

const options = parse(process.argv.slice(2));
let avr;
try {
  avr = require("avr8js");
} catch {
  fail(`avr8js is not installed; type: npm ci --prefix ${__dirname}`);
}
serve(avr, readHex(options.image), options);
