#!/usr/bin/env node
// unojs: an Arduino Uno on avr8js, driven by the harness like emulators/uno. See README.md.
"use strict";
const fs = require("node:fs");
const {failing, parse, Wire, serve} = require("./board.js");

const CLOCK_HZ = 16e6, FLASH_WORDS = 0x4000, RAM_BYTES = 2048;
const LIFTED_BYTE_CYCLES = 40; // as emulators/uno
const MISSING_ENTRY_CYCLES = 2; // interrupt entry takes 4 cycles (datasheet DS40002061, 7.7.1); avr8js 0.21 charges 2
const SLICE_CYCLES = 20000; // between two looks at the socket
const UCSR0A = 0xc0, UCSR0B = 0xc1, RXC = 0x80, RXCIE = 0x80;

const fail = failing("unojs");

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
    this.usart.onByteTransmit = (byte) => this.wire.sent.push(byte);
    this.wire = new Wire();
    this.lifted = uart === "lifted";
    this.nextDue = 0;
  }

  get cycles() {
    return this.cpu.cycles;
  }

  // A byte comes only when the last one was read and the program listens, so none is ever overrun.
  deliver() {
    const {cpu, usart} = this;
    if (cpu.data[UCSR0A] & RXC || !(cpu.data[UCSR0B] & RXCIE) || usart.rxBusy) return;
    usart.writeByte(this.wire.take(), this.lifted);
    this.nextDue = cpu.cycles + LIFTED_BYTE_CYCLES;
  }

  run() {
    const {cpu, avr} = this, end = cpu.cycles + SLICE_CYCLES;
    while (cpu.cycles < end) {
      avr.avrInstruction(cpu);
      const sp = cpu.SP;
      cpu.tick();
      if (cpu.SP !== sp) cpu.cycles += MISSING_ENTRY_CYCLES;
      if (this.wire.waits && cpu.cycles >= this.nextDue) this.deliver();
    }
  }
}

const options = parse(process.argv.slice(2), "unojs.js --image FILE.hex [--uart lifted|true]", fail);
let avr;
try {
  avr = require("avr8js");
} catch {
  fail(`avr8js is not installed; type: npm ci --prefix ${__dirname}`);
}
const flash = readHex(options.image);
serve(() => new Machine(avr, flash, options.uart), require("avr8js/package.json").version);
