// The AVRe+ core of an ATmega328P: decoding, execution, cycles, interrupts. Nothing of Renode is used here.
// Source: AVR Instruction Set Manual (DS40002198); cycles: ATmega328P datasheet (DS40002061), chapters 7 and 31.
using System;

namespace TinyHil.Avr
{
    // The program did something that the chip, or this model of it, does not have.
    public class AvrFault : Exception
    {
        public AvrFault(string why) : base(why) { }
    }

    public enum Op : byte
    {
        Invalid, Nop, Movw, Muls, Mulsu, Fmul, Fmuls, Fmulsu, Cpc, Sbc, Add, Cpse, Cp, Sub, Adc, And, Eor, Or, Mov,
        Cpi, Sbci, Subi, Ori, Andi, Ldi, Load, LoadInc, LoadDec, Store, StoreInc, StoreDec, Lds, Sts, Lpm, LpmInc, Push, Pop,
        Com, Neg, Swap, Inc, Asr, Lsr, Ror, Dec, Bset, Bclr, Ret, Reti, Sleep, Ijmp, Icall, Jmp, Call, Adiw, Sbiw,
        Cbi, Sbic, Sbi, Sbis, Mul, In, Out, Rjmp, Rcall, Brbs, Brbc, Bld, Bst, Sbrc, Sbrs,
    }

    public struct Instruction
    {
        public Op Op;
        public byte D, R;   // registers; R is also the number of a bit
        public byte Words;
        public int K;       // constant, displacement, address
    }

    // A row of the instruction table. Letters name operands: d r D (16 and up) R (16 and up) p q (pairs) w (pairs from 24) are
    // registers, b a bit, K a constant, k a signed distance, A an I/O register; @ takes its value from the next word.
    public struct Row
    {
        public Row(string pattern, Op op, byte pointer = 0, bool address = false)
        {
            this.op = op;
            this.pointer = pointer;
            this.address = address;
            letters = pattern.Replace(" ", "");
            mask = bits = 0;
            foreach(var letter in letters)
            {
                mask = mask << 1 | (letter == '0' || letter == '1' ? 1 : 0);
                bits = bits << 1 | (letter == '1' ? 1 : 0);
            }
        }

        public bool Fits(int word)
        {
            return (word & mask) == bits;
        }

        public Instruction Decode(int word, int next)
        {
            int d = Field(word, 'd') + (letters.IndexOf('D') < 0 ? 0 : 16 + Field(word, 'D'));
            int r = Field(word, 'r') + (letters.IndexOf('R') < 0 ? 0 : 16 + Field(word, 'R'));
            int k = Field(word, 'k'), width = letters.Split('k').Length - 1;
            if(width > 0 && k >> width - 1 != 0) k -= 1 << width;
            int io = letters.IndexOf('A') < 0 ? 0 : 0x20 + Field(word, 'A');
            return new Instruction
            {
                Op = op,
                D = (byte)(d + 2 * Field(word, 'p') + (letters.IndexOf('w') < 0 ? 0 : 24 + 2 * Field(word, 'w'))),
                R = (byte)(r + 2 * Field(word, 'q') + Field(word, 'b') + pointer),
                Words = (byte)(address ? 2 : 1),
                K = address ? next : k + io + Field(word, 'K'),
            };
        }

        private int Field(int word, char letter)
        {
            int value = 0;
            for(var i = 0; i < 16; i++) if(letters[i] == letter) value = value << 1 | (word >> 15 - i & 1);
            return value;
        }

        private readonly Op op;
        private readonly string letters;
        private readonly int mask, bits;
        private readonly byte pointer;
        private readonly bool address;
    }

    // A chip adds its I/O registers, its events in time and its interrupts.
    public abstract class AvrCore
    {
        public const int FlashBytes = 0x8000, RamStart = 0x100, RamEnd = 0x8FF;

        public long Cycles { get; protected set; }
        public long Instructions { get; private set; }

        // In words
        public int ProgramCounter
        {
            get { return pc; }
            set { pc = value & PcMask; }
        }

        public virtual void Reset()
        {
            Array.Clear(data, 0, data.Length);
            pc = sreg = 0;
            sp = RamEnd;
            sleeping = false;
            Cycles = Instructions = 0;
            enabledAt = -1;
            pending = 0;
        }

        // At most `FlashBytes`; the rest is erased.
        public void Load(byte[] image)
        {
            for(var i = 0; i < FlashBytes; i++) flash[i] = i < image.Length ? image[i] : (byte)0xFF;
            for(var i = 0; i < FlashWords; i++) program[i] = Decode(WordAt(i), WordAt(i + 1 & PcMask));
        }

        // Until `Cycles` is `until`, or up to an instruction and an interrupt's entry more.
        public void Run(long until)
        {
            while(Cycles < until)
            {
                if(!sleeping)
                    Step();
                else
                    Cycles = Math.Max(Cycles, Math.Min(nextEvent, until));
                if(Cycles >= nextEvent) OnEvents();
                if(pending != 0) Serve();
            }
        }

        public int Read(int address)
        {
            if(address > RamEnd) throw new AvrFault(string.Format("read from 0x{0:x4}, beyond RAMEND 0x{1:x4}", address, RamEnd));
            if(address >= RamStart || address < 0x20) return data[address];
            switch(address)
            {
                case Spl: return sp & 0xFF;
                case Sph: return sp >> 8;
                case Sreg: return sreg;
                default: return ReadIo(address);
            }
        }

        public void Write(int address, int value)
        {
            if(address > RamEnd) throw new AvrFault(string.Format("write to 0x{0:x4}, beyond RAMEND 0x{1:x4}", address, RamEnd));
            if(address >= RamStart || address < 0x20) data[address] = (byte)value;
            else if(address == Spl) sp = sp & 0xFF00 | value;
            else if(address == Sph) sp = sp & 0xFF | value << 8;
            else if(address == Sreg) SetStatus(value);
            else WriteIo(address, (byte)value);
        }

        protected abstract int ReadIo(int address);
        protected abstract void WriteIo(int address, byte value);
        protected abstract void OnEvents();               // called once `Cycles` has reached `nextEvent`
        protected abstract void Acknowledge(int vector);  // its handler begins

        protected readonly byte[] data = new byte[RamEnd + 1];
        protected long nextEvent = long.MaxValue;
        protected int pending; // bit n: interrupt vector n asks

        private static Instruction Decode(int word, int next)
        {
            foreach(var row in Rows) if(row.Fits(word)) return row.Decode(word, next);
            return new Instruction { Op = Op.Invalid, Words = 1 };
        }

        private int WordAt(int at)
        {
            return flash[2 * at] | flash[2 * at + 1] << 8;
        }

        // One instruction follows the one that sets I before an interrupt comes (7.7).
        private void SetStatus(int value)
        {
            if((value & ~sreg & I) != 0) enabledAt = Instructions;
            sreg = value;
        }

        private void Serve()
        {
            if((sreg & I) == 0 || Instructions == enabledAt) return;
            int vector = 0;
            while((pending >> vector & 1) == 0) vector++;
            if(sleeping) Cycles += WakeCycles;
            sleeping = false;
            PushPc(pc);
            pc = 2 * vector;
            sreg &= ~I;
            Cycles += EntryCycles;
            Acknowledge(vector);
        }

        private void Push(int value)
        {
            Write(sp, value);
            sp = sp - 1 & 0xFFFF;
        }

        private int Pop()
        {
            sp = sp + 1 & 0xFFFF;
            return Read(sp);
        }

        private void PushPc(int value)
        {
            Push(value & 0xFF);
            Push(value >> 8);
        }

        private int PopPc()
        {
            int high = Pop();
            return high << 8 | Pop();
        }

        private int Pair(int register)
        {
            return data[register] | data[register + 1] << 8;
        }

        private void SetPair(int register, int value)
        {
            data[register] = (byte)value;
            data[register + 1] = (byte)(value >> 8);
        }

        private byte Add(int a, int b, int carry)
        {
            int r = a + b + carry, carries = a & b | (a | b) & ~r;
            sreg = sreg & (I | T) | Flags[r & 0xFF | ((a ^ r) & (b ^ r) & 0x80) << 1] | (carries & 8) << 2 | carries >> 7 & 1;
            return (byte)r;
        }

        private byte Sub(int a, int b, int borrow)
        {
            int r = a - b - borrow, borrows = ~a & b | (~a | b) & r;
            sreg = sreg & (I | T) | Flags[r & 0xFF | ((a ^ b) & (a ^ r) & 0x80) << 1] | (borrows & 8) << 2 | borrows >> 7 & 1;
            return (byte)r;
        }

        // A later byte of a longer subtraction: Z stays only if it was set.
        private byte SubWithCarry(int a, int b)
        {
            int zero = sreg & Z;
            byte r = Sub(a, b, sreg & C);
            sreg &= zero | ~Z;
            return r;
        }

        private byte Logic(int r, int overflow = 0)
        {
            sreg = sreg & (I | T | H | C) | Flags[r & 0xFF | overflow << 8];
            return (byte)r;
        }

        private byte Shift(int a, int r)
        {
            sreg = sreg & ~C | a & 1;
            return Logic(r, (r >> 7 ^ a) & 1);
        }

        private void Multiply(int product, int shift)
        {
            sreg = sreg & ~(C | Z) | product >> 15 & 1;
            product = product << shift & 0xFFFF;
            if(product == 0) sreg |= Z;
            SetPair(0, product);
        }

        private void AddToPair(int register, int k)
        {
            int a = Pair(register), r = a + k & 0xFFFF, high = r >> 8;
            int turned = k > 0 ? ~a & r : a & ~r, carried = k > 0 ? a & ~r : ~a & r; // into the sign, out of it
            Logic(high, turned >> 15 & 1);
            sreg = sreg & ~(C | Z) | (r == 0 ? Z : 0) | (k == 0 ? 0 : carried >> 15 & 1);
            SetPair(register, r);
        }

        private int SkipIf(bool condition, int next)
        {
            int words = condition ? program[next & PcMask].Words : 0;
            pc = next + words;
            return 1 + words;
        }

        private void Step()
        {
            Instruction i = program[pc];
            int next = pc + i.Words, cycles = 1, at;
            ++Instructions;
            switch(i.Op)
            {
                case Op.Nop: break;
                case Op.Mov: data[i.D] = data[i.R]; break;
                case Op.Movw: data[i.D] = data[i.R]; data[i.D + 1] = data[i.R + 1]; break;
                case Op.Ldi: data[i.D] = (byte)i.K; break;

                case Op.Add: data[i.D] = Add(data[i.D], data[i.R], 0); break;
                case Op.Adc: data[i.D] = Add(data[i.D], data[i.R], sreg & C); break;
                case Op.Sub: data[i.D] = Sub(data[i.D], data[i.R], 0); break;
                case Op.Subi: data[i.D] = Sub(data[i.D], i.K, 0); break;
                case Op.Sbc: data[i.D] = SubWithCarry(data[i.D], data[i.R]); break;
                case Op.Sbci: data[i.D] = SubWithCarry(data[i.D], i.K); break;
                case Op.Cp: Sub(data[i.D], data[i.R], 0); break;
                case Op.Cpi: Sub(data[i.D], i.K, 0); break;
                case Op.Cpc: SubWithCarry(data[i.D], data[i.R]); break;
                case Op.Neg: data[i.D] = Sub(0, data[i.D], 0); break;
                case Op.And: data[i.D] = Logic(data[i.D] & data[i.R]); break;
                case Op.Andi: data[i.D] = Logic(data[i.D] & i.K); break;
                case Op.Or: data[i.D] = Logic(data[i.D] | data[i.R]); break;
                case Op.Ori: data[i.D] = Logic(data[i.D] | i.K); break;
                case Op.Eor: data[i.D] = Logic(data[i.D] ^ data[i.R]); break;
                case Op.Com: data[i.D] = Logic(~data[i.D]); sreg |= C; break;
                case Op.Inc: data[i.D] = Logic(data[i.D] + 1, data[i.D] == 0x7F ? 1 : 0); break;
                case Op.Dec: data[i.D] = Logic(data[i.D] - 1, data[i.D] == 0x80 ? 1 : 0); break;
                case Op.Lsr: data[i.D] = Shift(data[i.D], data[i.D] >> 1); break;
                case Op.Ror: data[i.D] = Shift(data[i.D], data[i.D] >> 1 | (sreg & C) << 7); break;
                case Op.Asr: data[i.D] = Shift(data[i.D], data[i.D] >> 1 | data[i.D] & 0x80); break;
                case Op.Swap: data[i.D] = (byte)(data[i.D] << 4 | data[i.D] >> 4); break;
                case Op.Bld: data[i.D] = (byte)(data[i.D] & ~(1 << i.R) | (sreg >> 6 & 1) << i.R); break;
                case Op.Bst: sreg = sreg & ~T | (data[i.D] >> i.R & 1) << 6; break;
                case Op.Bset: SetStatus(sreg | 1 << i.R); break;
                case Op.Bclr: SetStatus(sreg & ~(1 << i.R)); break;
                case Op.Adiw: AddToPair(i.D, i.K); cycles = 2; break;
                case Op.Sbiw: AddToPair(i.D, -i.K); cycles = 2; break;
                case Op.Mul: Multiply(data[i.D] * data[i.R], 0); cycles = 2; break;
                case Op.Muls: Multiply((sbyte)data[i.D] * (sbyte)data[i.R], 0); cycles = 2; break;
                case Op.Mulsu: Multiply((sbyte)data[i.D] * data[i.R], 0); cycles = 2; break;
                case Op.Fmul: Multiply(data[i.D] * data[i.R], 1); cycles = 2; break;
                case Op.Fmuls: Multiply((sbyte)data[i.D] * (sbyte)data[i.R], 1); cycles = 2; break;
                case Op.Fmulsu: Multiply((sbyte)data[i.D] * data[i.R], 1); cycles = 2; break;

                case Op.Load: data[i.D] = (byte)Read(Pair(i.R) + i.K & 0xFFFF); cycles = 2; break;
                case Op.Store: Write(Pair(i.R) + i.K & 0xFFFF, data[i.D]); cycles = 2; break;
                case Op.LoadInc: at = Pair(i.R); SetPair(i.R, at + 1); data[i.D] = (byte)Read(at); cycles = 2; break;
                case Op.StoreInc: at = Pair(i.R); Write(at, data[i.D]); SetPair(i.R, at + 1); cycles = 2; break;
                case Op.LoadDec: at = Pair(i.R) - 1 & 0xFFFF; SetPair(i.R, at); data[i.D] = (byte)Read(at); cycles = 2; break;
                case Op.StoreDec: at = Pair(i.R) - 1 & 0xFFFF; Write(at, data[i.D]); SetPair(i.R, at); cycles = 2; break;
                case Op.Lds: data[i.D] = (byte)Read(i.K); cycles = 2; break;
                case Op.Sts: Write(i.K, data[i.D]); cycles = 2; break;
                case Op.Push: Push(data[i.D]); cycles = 2; break;
                case Op.Pop: data[i.D] = (byte)Pop(); cycles = 2; break;
                case Op.In: data[i.D] = (byte)Read(i.K); break;
                case Op.Out: Write(i.K, data[i.D]); break;
                case Op.Lpm: data[i.D] = flash[Pair(30) & FlashBytes - 1]; cycles = 3; break;
                case Op.LpmInc: at = Pair(30); SetPair(30, at + 1); data[i.D] = flash[at & FlashBytes - 1]; cycles = 3; break;
                // In a register of flags that a 1 clears, only this bit is written (14.1).
                case Op.Sbi: Write(i.K, 1 << i.R | (i.K >= Tifr0 && i.K <= Tifr2 ? 0 : Read(i.K))); cycles = 2; break;
                case Op.Cbi: if(i.K < Tifr0 || i.K > Tifr2) Write(i.K, Read(i.K) & ~(1 << i.R)); cycles = 2; break;

                case Op.Brbs: if((sreg >> i.R & 1) != 0) { next += i.K; cycles = 2; } break;
                case Op.Brbc: if((sreg >> i.R & 1) == 0) { next += i.K; cycles = 2; } break;
                case Op.Rjmp: next += i.K; cycles = 2; break;
                case Op.Jmp: next = i.K; cycles = 3; break;
                case Op.Ijmp: next = Pair(30); cycles = 2; break;
                case Op.Rcall: PushPc(next); next += i.K; cycles = 3; break;
                case Op.Call: PushPc(next); next = i.K; cycles = 4; break;
                case Op.Icall: PushPc(next); next = Pair(30); cycles = 3; break;
                case Op.Ret: next = PopPc(); cycles = 4; break;
                case Op.Reti: next = PopPc(); SetStatus(sreg | I); cycles = 4; break;
                case Op.Cpse: cycles = SkipIf(data[i.D] == data[i.R], next); next = pc; break;
                case Op.Sbrc: cycles = SkipIf((data[i.D] >> i.R & 1) == 0, next); next = pc; break;
                case Op.Sbrs: cycles = SkipIf((data[i.D] >> i.R & 1) != 0, next); next = pc; break;
                case Op.Sbic: cycles = SkipIf((Read(i.K) >> i.R & 1) == 0, next); next = pc; break;
                case Op.Sbis: cycles = SkipIf((Read(i.K) >> i.R & 1) != 0, next); next = pc; break;

                case Op.Sleep: sleeping = (Read(Smcr) & 1) != 0; break;
                default: throw new AvrFault("invalid opcode");
            }
            pc = next & PcMask;
            Cycles += cycles;
        }

        private int pc, sp, sreg;
        private bool sleeping;
        private long enabledAt; // number of the instruction that has set I

        private readonly byte[] flash = new byte[FlashBytes];
        private readonly Instruction[] program = new Instruction[FlashWords];

        private const int FlashWords = FlashBytes / 2, PcMask = FlashWords - 1;
        private const int EntryCycles = 4, WakeCycles = 4; // 7.7.1
        private const int C = 1, Z = 2, N = 4, V = 8, S = 16, H = 32, T = 64, I = 128;
        private const int Tifr0 = 0x35, Tifr2 = 0x37, Smcr = 0x53, Spl = 0x5D, Sph = 0x5E, Sreg = 0x5F;

        // S, V, N and Z of a result (bits 0 to 7) and its overflow (bit 8)
        private static readonly byte[] Flags = MakeFlags();

        private static byte[] MakeFlags()
        {
            var flags = new byte[512];
            for(var i = 0; i < 512; i++)
            {
                int negative = i >> 7 & 1, overflow = i >> 8;
                flags[i] = (byte)((negative ^ overflow) * S | overflow * V | negative * N | ((i & 0xFF) == 0 ? Z : 0));
            }
            return flags;
        }

        private static readonly Row[] Rows =
        {
            new Row("0000 0000 0000 0000", Op.Nop), new Row("0000 0001 pppp qqqq", Op.Movw),
            new Row("0000 0010 DDDD RRRR", Op.Muls), new Row("0000 0011 0DDD 0RRR", Op.Mulsu),
            new Row("0000 0011 0DDD 1RRR", Op.Fmul), new Row("0000 0011 1DDD 0RRR", Op.Fmuls),
            new Row("0000 0011 1DDD 1RRR", Op.Fmulsu), new Row("0000 01rd dddd rrrr", Op.Cpc),
            new Row("0000 10rd dddd rrrr", Op.Sbc), new Row("0000 11rd dddd rrrr", Op.Add),
            new Row("0001 00rd dddd rrrr", Op.Cpse), new Row("0001 01rd dddd rrrr", Op.Cp),
            new Row("0001 10rd dddd rrrr", Op.Sub), new Row("0001 11rd dddd rrrr", Op.Adc),
            new Row("0010 00rd dddd rrrr", Op.And), new Row("0010 01rd dddd rrrr", Op.Eor),
            new Row("0010 10rd dddd rrrr", Op.Or), new Row("0010 11rd dddd rrrr", Op.Mov),
            new Row("0011 KKKK DDDD KKKK", Op.Cpi), new Row("0100 KKKK DDDD KKKK", Op.Sbci),
            new Row("0101 KKKK DDDD KKKK", Op.Subi), new Row("0110 KKKK DDDD KKKK", Op.Ori),
            new Row("0111 KKKK DDDD KKKK", Op.Andi), new Row("1110 KKKK DDDD KKKK", Op.Ldi),
            new Row("10K0 KK0d dddd 0KKK", Op.Load, 30), new Row("10K0 KK0d dddd 1KKK", Op.Load, 28),
            new Row("10K0 KK1d dddd 0KKK", Op.Store, 30), new Row("10K0 KK1d dddd 1KKK", Op.Store, 28),
            new Row("1001 000d dddd 0000", Op.Lds, address: true), new Row("1001 001d dddd 0000", Op.Sts, address: true),
            new Row("1001 000d dddd 0001", Op.LoadInc, 30), new Row("1001 001d dddd 0001", Op.StoreInc, 30),
            new Row("1001 000d dddd 0010", Op.LoadDec, 30), new Row("1001 001d dddd 0010", Op.StoreDec, 30),
            new Row("1001 000d dddd 0100", Op.Lpm), new Row("1001 000d dddd 0101", Op.LpmInc),
            new Row("1001 000d dddd 1001", Op.LoadInc, 28), new Row("1001 001d dddd 1001", Op.StoreInc, 28),
            new Row("1001 000d dddd 1010", Op.LoadDec, 28), new Row("1001 001d dddd 1010", Op.StoreDec, 28),
            new Row("1001 000d dddd 1100", Op.Load, 26), new Row("1001 001d dddd 1100", Op.Store, 26),
            new Row("1001 000d dddd 1101", Op.LoadInc, 26), new Row("1001 001d dddd 1101", Op.StoreInc, 26),
            new Row("1001 000d dddd 1110", Op.LoadDec, 26), new Row("1001 001d dddd 1110", Op.StoreDec, 26),
            new Row("1001 000d dddd 1111", Op.Pop), new Row("1001 001d dddd 1111", Op.Push),
            new Row("1001 010d dddd 0000", Op.Com), new Row("1001 010d dddd 0001", Op.Neg),
            new Row("1001 010d dddd 0010", Op.Swap), new Row("1001 010d dddd 0011", Op.Inc),
            new Row("1001 010d dddd 0101", Op.Asr), new Row("1001 010d dddd 0110", Op.Lsr),
            new Row("1001 010d dddd 0111", Op.Ror), new Row("1001 010d dddd 1010", Op.Dec),
            new Row("1001 0100 0bbb 1000", Op.Bset), new Row("1001 0100 1bbb 1000", Op.Bclr),
            new Row("1001 0101 0000 1000", Op.Ret), new Row("1001 0101 0001 1000", Op.Reti),
            new Row("1001 0101 1000 1000", Op.Sleep), new Row("1001 0101 1001 1000", Op.Nop), // break
            new Row("1001 0101 1010 1000", Op.Nop), new Row("1001 0101 1100 1000", Op.Lpm),   // wdr; lpm into r0
            new Row("1001 0100 0000 1001", Op.Ijmp), new Row("1001 0101 0000 1001", Op.Icall),
            new Row("1001 0100 0000 110@", Op.Jmp, address: true), new Row("1001 0100 0000 111@", Op.Call, address: true),
            new Row("1001 0110 KKww KKKK", Op.Adiw), new Row("1001 0111 KKww KKKK", Op.Sbiw),
            new Row("1001 1000 AAAA Abbb", Op.Cbi), new Row("1001 1001 AAAA Abbb", Op.Sbic),
            new Row("1001 1010 AAAA Abbb", Op.Sbi), new Row("1001 1011 AAAA Abbb", Op.Sbis),
            new Row("1001 11rd dddd rrrr", Op.Mul),
            new Row("1011 0AAd dddd AAAA", Op.In), new Row("1011 1AAd dddd AAAA", Op.Out),
            new Row("1100 kkkk kkkk kkkk", Op.Rjmp), new Row("1101 kkkk kkkk kkkk", Op.Rcall),
            new Row("1111 00kk kkkk kbbb", Op.Brbs), new Row("1111 01kk kkkk kbbb", Op.Brbc),
            new Row("1111 100d dddd 0bbb", Op.Bld), new Row("1111 101d dddd 0bbb", Op.Bst),
            new Row("1111 110d dddd 0bbb", Op.Sbrc), new Row("1111 111d dddd 0bbb", Op.Sbrs),
        };
    }
}
