package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"
)

// relayCommand makes this program a relay to the address that follows it, on the address behind that.
const relayCommand = "relay"

// relay copies octets between clients and one server, until its standard input ends: the least that a Go proxy can do.
// io.Copy between TCP connections does not even bring the octets into the process (splice). It prints its address.
func relay(server, listen string) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = l.Close()
	}()
	for {
		c, err := l.Accept()
		if err != nil { // closed
			return nil
		}
		go both(c, server)
	}
}

func both(client net.Conn, address string) {
	server, err := net.Dial("tcp", address)
	if err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		_ = client.Close()
		return
	}
	var wg sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		wg.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			// Either end's end is the other's.
			_ = way[0].Close()
			_ = way[1].Close()
		})
	}
	wg.Wait()
}
