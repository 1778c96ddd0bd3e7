// The ATmega328P of emulators/renode without Renode, behind a TCP port: a program like emulators/uno, for tests.
//     mono uno.exe --image FILE.hex [--uart lifted]
using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Net;
using System.Net.Sockets;
using System.Threading;
using TinyHil.Avr;

public static class Uno
{
    private const int SliceCycles = 20000; // between two looks at the socket

    public static int Main(string[] words)
    {
        var image = Array.IndexOf(words, "--image");
        if(image < 0 || image + 1 >= words.Length)
        {
            Console.Error.WriteLine("uno: no --image");
            return 2;
        }
        var flash = ReadHex(words[image + 1]);
        var listener = new TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        Say("{{\"event\":\"ready\",\"pty\":\"socket://127.0.0.1:{0}\"}}", ((IPEndPoint)listener.LocalEndpoint).Port);
        var server = new Thread(() => Serve(listener, flash)) { IsBackground = true };
        server.Start();
        while(Console.In.Read() >= 0) { } // its end is ours
        ended = true;
        server.Join();
        Say("{{\"event\":\"exit\",\"cycles\":{0},\"resets\":{1}}}", cycles, resets);
        return 0;
    }

    // Opening the port resets the board; a later client replaces an earlier one.
    private static void Serve(TcpListener listener, byte[] flash)
    {
        Socket client = null;
        var faulted = false;
        var sent = new List<byte>();
        var buffer = new byte[4096];
        var chip = new Atmega328p(sent.Add);
        chip.Load(flash);
        for(; !ended; cycles = chip.Cycles)
        {
            if(listener.Pending())
            {
                if(client != null) client.Close();
                client = listener.AcceptSocket();
                client.NoDelay = true;
                chip.Reset();
                sent.Clear();
                faulted = false;
                ++resets;
                Say("{{\"event\":\"reset\",\"why\":\"port opened\"}}");
            }
            if(client == null || faulted)
            {
                Thread.Sleep(1);
                continue;
            }
            try
            {
                if(client.Poll(0, SelectMode.SelectRead))
                {
                    var count = client.Receive(buffer);
                    for(var i = 0; i < count; i++) chip.Feed(buffer[i]);
                    if(count == 0) throw new SocketException();
                }
                chip.Look();
                chip.Run(chip.Cycles + SliceCycles);
                if(sent.Count > 0) client.Send(sent.ToArray());
                sent.Clear();
            }
            catch(SocketException)
            {
                client.Close();
                client = null;
            }
            catch(AvrFault fault)
            {
                faulted = true;
                Say("{{\"event\":\"fault\",\"pc\":\"0x{0:x4}\",\"why\":\"{1}\"}}", 2 * chip.ProgramCounter, fault.Message);
            }
        }
    }

    private static byte[] ReadHex(string path)
    {
        var flash = new byte[AvrCore.FlashBytes];
        for(var i = 0; i < flash.Length; i++) flash[i] = 0xFF;
        foreach(var line in File.ReadAllLines(path))
        {
            Func<int, int, int> number = (at, digits) => int.Parse(line.Substring(at, digits), NumberStyles.HexNumber);
            if(number(7, 2) != 0) continue;
            for(var i = 0; i < number(1, 2); i++) flash[number(3, 4) + i] = (byte)number(9 + 2 * i, 2);
        }
        return flash;
    }

    private static void Say(string format, params object[] values)
    {
        Console.WriteLine(format, values);
        Console.Out.Flush();
    }

    private static long cycles;
    private static int resets;
    private static volatile bool ended;
}
