#!/usr/bin/env node
// picojs: a Raspberry Pi Pico on rp2040js, driven by the harness like emulators/cortexm. See README.md.
"use strict";
const fs = require("node:fs");
const {failing, parse, Wire, serve} = require("../avr8js/board.js");

const FLASH_BASE = 0x10000000, FLASH_BYTES = 2 << 20, BLOCK_BYTES = 512, PAGE_BYTES = 256, FAMILY = 0xe48bff56;
const BOOT2 = 0x20041f00, ROM_STACK = 0x20041f00;
const CYCLE_NS = 8; // 125 MHz, which the firmware sets up
const LIFTED_BYTE_CYCLES = 40; // as emulators/cortexm
const SLICE_INSTRUCTIONS = 20000; // between two looks at the socket
const RX_INTERRUPT = 1 << 4;

const fail = failing("picojs");

function readUf2(path) {
  let file;
  try {
    file = fs.readFileSync(path);
  } catch (error) {
    fail(`cannot read ${path}: ${error.code}`);
  }
  const flash = new Uint8Array(FLASH_BYTES).fill(0xff);
  const blocks = file.length / BLOCK_BYTES;
  if (!blocks || !Number.isInteger(blocks)) fail(`${path}: no whole blocks of UF2`);
  for (let at = 0; at < file.length; at += BLOCK_BYTES) {
    const field = (index) => file.readUInt32LE(at + 4 * index), offset = field(3) - FLASH_BASE;
    const known = field(0) === 0x0a324655 && field(1) === 0x9e5d5157 && field(127) === 0x0ab16f30;
    if (!known || field(6) !== blocks || field(5) !== at / BLOCK_BYTES) fail(`${path}: block ${at / BLOCK_BYTES} is damaged`);
    if (field(7) !== FAMILY || field(4) !== PAGE_BYTES || offset < 0 || offset >= FLASH_BYTES) fail(`${path}: not for an RP2040`);
    flash.set(file.subarray(at + 32, at + 32 + PAGE_BYTES), offset);
  }
  return flash;
}

class Machine {
  constructor(rp2040js, flash, uart) {
    const {rp2040, clock} = new rp2040js.Simulator();
    this.chip = rp2040;
    this.clock = clock;
    this.chip.logger = new rp2040js.ConsoleLogger(rp2040js.LogLevel.Error, true);
    this.chip.flash.set(flash);
    this.startSecondStage(flash);
    this.uart = this.chip.uart[0];
    this.wire = new Wire();
    this.uart.onByte = (byte) => this.wire.sent.push(byte);
    this.byteCycles = uart === "lifted" ? () => LIFTED_BYTE_CYCLES : () => 10 * 16 * this.uart.baudDivider;
    this.cycles = this.nextDue = 0;
  }

  // What the ROM does, which rp2040js does not bring: copy the second stage and run it. Its CRC is for others to check.
  startSecondStage(flash) {
    const {chip} = this;
    chip.sram.set(flash.subarray(0, PAGE_BYTES), BOOT2 - 0x20000000);
    chip.core.SP = ROM_STACK;
    chip.core.LR = 0;
    chip.core.PC = BOOT2;
  }

  // A byte comes only when the last one was read and the program listens, so none is ever overrun.
  deliver() {
    const {uart} = this;
    if (!uart.rxFIFO.empty || !uart.enabled || !(uart.interruptMask & RX_INTERRUPT)) return;
    uart.feedByte(this.wire.take());
    this.nextDue = this.cycles + this.byteCycles();
  }

  run() {
    const {chip, clock} = this;
    for (let i = 0; i < SLICE_INSTRUCTIONS; ++i) {
      const cycles = chip.core.executeInstruction();
      this.cycles += cycles;
      clock.tick(cycles * CYCLE_NS);
      if (this.wire.waits && this.cycles >= this.nextDue) this.deliver();
    }
  }
}

const options = parse(process.argv.slice(2), "picojs.js --image FILE.uf2 [--uart lifted|true]", fail);
let rp2040js;
try {
  rp2040js = require("rp2040js");
} catch {
  fail(`rp2040js is not installed; type: npm ci --prefix ${__dirname}`);
}
const flash = readUf2(options.image);
const manifest = JSON.parse(fs.readFileSync(`${__dirname}/node_modules/rp2040js/package.json`, "utf8"));
serve(() => new Machine(rp2040js, flash, options.uart), manifest.version);
