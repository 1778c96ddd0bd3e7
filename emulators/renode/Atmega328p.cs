// An ATmega328P as far as the firmware can notice: AvrCore, Timer1 and USART0. Nothing of Renode is used here.
// Chapters: datasheet DS40002061.
using System;
using System.Collections.Generic;

namespace TinyHil.Avr
{
    public class Atmega328p : AvrCore
    {
        public const int Usart0 = 0xC0;

        public Atmega328p(Action<byte> sent)
        {
            this.sent = sent;
            Load(new byte[0]);
            Reset();
        }

        public override void Reset()
        {
            base.Reset();
            data[Mcusr] = 1; // power-on
            data[Ucsrc] = 0x06;
            timerZero = overflowAt = 0;
            temporary = 0;
            timerRuns = timerOverflowed = false;
            fifo.Clear();
            status = 0;
            shifting = buffered = -1;
            sentAll = false;
            rxAt = txAt = long.MaxValue;
            lock(coming) coming.Clear();
            Look();
        }

        // A byte on the wire, from any thread. It waits until the program listens: nothing is ever overrun.
        public void Feed(byte value)
        {
            lock(coming) coming.Enqueue(value);
        }

        // To be called now and then: somebody may have fed a byte.
        public void Look()
        {
            if(rxAt == long.MaxValue && MayReceive()) rxAt = Cycles + ByteCycles;
            Update();
        }

        public uint BaudRate
        {
            get
            {
                int divisor = (data[Ubrrl] | (data[Ubrrh] & 0x0F) << 8) + 1;
                return (uint)(ClockHz / (divisor * ((status & U2x) != 0 ? 8 : 16)));
            }
        }

        protected override int ReadIo(int address)
        {
            switch(address)
            {
                case Tifr1: return timerOverflowed ? Tov : 0;
                case Tcnt1l:
                    temporary = Count() >> 8;
                    return Count() & 0xFF;
                case Tcnt1h: return temporary;
                case Ucsra: return status | (fifo.Count > 0 ? Rxc : 0) | (sentAll ? Txc : 0) | (buffered < 0 ? Udre : 0);
                case Udr:
                    int value = fifo.Count > 0 ? fifo.Dequeue() : 0;
                    Look();
                    return value;
                default: return data[address];
            }
        }

        protected override void WriteIo(int address, byte value)
        {
            data[address] = value;
            switch(address)
            {
                case Tifr1: timerOverflowed &= (value & Tov) == 0; break;
                case Tccr1a: Refuse(value != 0, "Timer1 in a mode other than normal"); break;
                case Tccr1b: SetClock(value); break;
                case Tcnt1h: temporary = value; break;
                case Tcnt1l: SetCount(temporary << 8 | value); break;
                case Timsk1: Refuse((value & ~Tov) != 0, "a compare or capture interrupt of Timer1"); break;
                case Ucsra:
                    status = value & (U2x | Mpcm);
                    sentAll &= (value & Txc) == 0;
                    break;
                case Ucsrb: // a receiver that is off forgets (19.7.5)
                    if((value & Rxen) == 0) fifo.Clear();
                    break;
                case Ucsrc: Refuse((value & 0xC0) != 0, "USART0 in a synchronous mode"); break;
                case Udr: Transmit(value); break;
                case Spmcsr: Refuse(value != 0, "self-programming"); break;
                case Wdtcsr: Refuse((value & 0x58) == 0x08 || (value & 0x58) == 0x40, "the watchdog"); break; // WDCE announces a change
            }
            Look();
        }

        protected override void OnEvents()
        {
            if(timerRuns && Cycles >= overflowAt)
            {
                timerOverflowed = true;
                overflowAt += 0x10000;
            }
            if(Cycles >= rxAt)
            {
                rxAt = long.MaxValue;
                if(MayReceive()) lock(coming) fifo.Enqueue(coming.Dequeue());
            }
            if(Cycles >= txAt)
            {
                sent((byte)shifting);
                shifting = buffered;
                buffered = -1;
                sentAll = shifting < 0;
                txAt = sentAll ? long.MaxValue : txAt + ByteCycles;
            }
            Look();
        }

        // RXC and UDRE ask for as long as they hold; the others once.
        protected override void Acknowledge(int vector)
        {
            if(vector == TimerVector) timerOverflowed = false;
            if(vector == TxVector) sentAll = false;
            Update();
        }

        private void Update()
        {
            int control = data[Ucsrb];
            pending = (timerOverflowed && (data[Timsk1] & Tov) != 0 ? 1 << TimerVector : 0)
                | (fifo.Count > 0 && (control & Rxc) != 0 ? 1 << RxVector : 0)
                | (buffered < 0 && (control & Udre) != 0 ? 1 << UdreVector : 0)
                | (sentAll && (control & Txc) != 0 ? 1 << TxVector : 0);
            nextEvent = Math.Min(Math.Min(rxAt, txAt), timerRuns ? overflowAt : long.MaxValue);
        }

        // ---- Timer1, normal mode, the chip's clock (chapter 15)

        private int Count()
        {
            return (int)((timerRuns ? Cycles - timerZero : timerZero) & 0xFFFF);
        }

        private void SetCount(int value)
        {
            timerZero = timerRuns ? Cycles - value : value;
            overflowAt = Cycles - value + 0x10000;
        }

        private void SetClock(byte value)
        {
            Refuse((value & ~1) != 0, "Timer1 with a prescaler or in a mode other than normal");
            int count = Count();
            timerRuns = value == 1;
            SetCount(count);
        }

        private static void Refuse(bool wrong, string what)
        {
            if(wrong) throw new AvrFault(what + " is not modelled");
        }

        // ---- USART0 (chapter 19): bytes take the same few cycles at any baud rate

        private bool MayReceive()
        {
            if((data[Ucsrb] & Rxen) == 0 || fifo.Count >= 2) return false;
            lock(coming) return coming.Count > 0;
        }

        private void Transmit(byte value)
        {
            if((data[Ucsrb] & Txen) == 0) return;
            if(shifting < 0)
            {
                shifting = value;
                txAt = Cycles + ByteCycles;
            }
            else if(buffered < 0) buffered = value;
        }

        private readonly Action<byte> sent;
        private readonly Queue<byte> coming = new Queue<byte>(); // on the wire
        private readonly Queue<byte> fifo = new Queue<byte>();   // received

        private long timerZero;  // the cycle at which Timer1 was 0; while it stands, its count
        private long overflowAt; // cycles, as rxAt and txAt
        private long rxAt, txAt;
        private bool timerRuns, timerOverflowed, sentAll;
        private int temporary, status, shifting, buffered; // -1: none

        private const int ClockHz = 16000000;
        private const int ByteCycles = 40; // as emulators/uno
        private const int Tifr1 = 0x36, Mcusr = 0x54, Spmcsr = 0x57, Wdtcsr = 0x60, Timsk1 = 0x6F, Tccr1a = 0x80, Tccr1b = 0x81;
        private const int Tcnt1l = 0x84, Tcnt1h = 0x85, Tov = 1;
        private const int Ucsra = Usart0, Ucsrb = 0xC1, Ucsrc = 0xC2, Ubrrl = 0xC4, Ubrrh = 0xC5, Udr = 0xC6;
        private const int Rxc = 0x80, Txc = 0x40, Udre = 0x20, Rxen = 0x10, Txen = 0x08, U2x = 0x02, Mpcm = 0x01;
        private const int TimerVector = 13, RxVector = 18, UdreVector = 19, TxVector = 20;
    }
}
