// The ATmega328P of Atmega328p.cs as a processor and a UART of Renode. Flash is memory of the bus, at 0; the data space is the
// chip's own.
using System;
using Antmicro.Migrant;
using Antmicro.Renode.Core;
using Antmicro.Renode.Logging;
using Antmicro.Renode.Peripherals.Bus;
using Antmicro.Renode.Peripherals.UART;
using ELFSharp.ELF;
using TinyHil.Avr;

namespace Antmicro.Renode.Peripherals.CPU
{
    // Renode's instruction is a cycle here: with `PerformanceInMips 16` virtual time is the chip's.
    public class ATmega328P : BaseCPU
    {
        public ATmega328P(IMachine machine, string cpuType = "atmega328p") : base(0, cpuType, machine, Endianess.LittleEndian)
        {
            Chip = new Atmega328p(value => Sent?.Invoke(value));
        }

        public override void Reset()
        {
            base.Reset();
            Chip.Reset();
            granted = 0;
            loaded = false;
        }

        public override ExecutionResult ExecuteInstructions(ulong numberOfInstructionsToExecute, out ulong numberOfExecutedInstructions)
        {
            if(!loaded) Chip.Load(machine.SystemBus.ReadBytes(0, AvrCore.FlashBytes));
            loaded = true;
            numberOfExecutedInstructions = numberOfInstructionsToExecute;
            granted += (long)numberOfInstructionsToExecute;
            try
            {
                Chip.Look();
                // What an instruction takes beyond its grant is missing from the next.
                Chip.Run(IsSingleStepMode ? Chip.Cycles + 1 : granted);
                return ExecutionResult.Ok;
            }
            catch(AvrFault fault)
            {
                this.Log(LogLevel.Error, "hil: fault: {0} at pc 0x{1:x4}", fault.Message, PC.RawValue);
                return ExecutionResult.Aborted;
            }
        }

        // In bytes
        public override RegisterValue PC
        {
            get { return (uint)(2 * Chip.ProgramCounter); }
            set { Chip.ProgramCounter = (int)(value.RawValue / 2); }
        }

        public override string Architecture => "avr";

        public override ulong ExecutedInstructions => (ulong)Chip.Instructions;

        public Atmega328p Chip { get; private set; }

        public event Action<byte> Sent;

        private long granted; // cycles
        private bool loaded;
    }
}

namespace Antmicro.Renode.Peripherals.UART
{
    public class ATmega328P_USART : IUART, IBytePeripheral, IKnownSize
    {
        public ATmega328P_USART(CPU.ATmega328P cpu)
        {
            this.cpu = cpu;
            cpu.Sent += value => CharReceived?.Invoke(value);
        }

        public void Reset()
        {
            // with the processor
        }

        public void WriteChar(byte value)
        {
            cpu.Chip.Feed(value);
        }

        public byte ReadByte(long offset)
        {
            return (byte)cpu.Chip.Read(Atmega328p.Usart0 + (int)offset);
        }

        public void WriteByte(long offset, byte value)
        {
            cpu.Chip.Write(Atmega328p.Usart0 + (int)offset, value);
        }

        public long Size => 7;

        public uint BaudRate => cpu.Chip.BaudRate;

        public Bits StopBits => Bits.One;

        public Parity ParityBit => Parity.None;

        [field: Transient]
        public event Action<byte> CharReceived;

        private readonly CPU.ATmega328P cpu;
    }
}
