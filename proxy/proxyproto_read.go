package proxy

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/pires/go-proxyproto"
)

// Sizes of PROXY protocol headers, in octets.
const (
	proxyBegin  = 8   // less than any header, and than anything else a client begins with
	proxyV1Max  = 107 // with the line's end
	proxyV2Head = 16  // up to the length of the rest
	proxyV2Max  = 4096
)

// Fields in the head of version 2.
const (
	proxyV2Command = 12
	proxyV2Family  = 13
	proxyV2Length  = 14
)

// readProxyHeader reads a PROXY protocol header that has begun or is about to, and nothing behind it. It keeps no buffer.
func readProxyHeader(r io.Reader) (*proxyproto.Header, error) {
	raw := make([]byte, proxyBegin, proxyV1Max)
	if n, err := io.ReadFull(r, raw); err != nil {
		return nil, fmt.Errorf("the header is not complete: %w%s", err, spoken(raw[:max(n, 1)]))
	}
	var err error
	switch {
	case bytes.HasPrefix(raw, append(proxyproto.SIGV1[:5:5], ' ')):
		raw, err = readProxyLine(r, raw)
	case bytes.Equal(raw, proxyproto.SIGV2[:proxyBegin]):
		raw, err = readProxyBlock(r, raw)
	default:
		return nil, fmt.Errorf("%w: the connection begins with %q%s", errNoProxyHeader, raw, spoken(raw))
	}
	switch {
	case errors.Is(err, errProxyTooLong):
		return nil, err
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("the header is not complete: %w", err)
	}
	return parseProxyHeader(raw)
}

// readProxyLine reads the rest of a header of version 1. Its end is only known when it is there: two octets are missing at least, one behind
// a CR.
func readProxyLine(r io.Reader, raw []byte) ([]byte, error) {
	for {
		missing := 2
		if raw[len(raw)-1] == '\r' {
			missing = 1
		}
		if len(raw)+missing > proxyV1Max {
			return nil, errProxyTooLong
		}
		n := len(raw)
		raw = raw[:n+missing]
		if _, err := io.ReadFull(r, raw[n:]); err != nil {
			return nil, err
		}
		if i := bytes.IndexByte(raw[n:], '\n'); i >= 0 {
			return raw, nil
		}
	}
}

// readProxyBlock reads the rest of a header of version 2.
func readProxyBlock(r io.Reader, raw []byte) ([]byte, error) {
	raw = raw[:proxyV2Head]
	if _, err := io.ReadFull(r, raw[proxyBegin:]); err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(raw, proxyproto.SIGV2) {
		return raw, nil // the parser says so
	}
	size := int(binary.BigEndian.Uint16(raw[proxyV2Length:]))
	if size > proxyV2Max {
		return nil, errProxyTooLong
	}
	whole := make([]byte, proxyV2Head+size)
	copy(whole, raw)
	_, err := io.ReadFull(r, whole[proxyV2Head:])
	return whole, err
}

// parseProxyHeader takes a whole header apart. raw is changed.
func parseProxyHeader(raw []byte) (*proxyproto.Header, error) {
	if len(raw) >= proxyV2Head && bytes.HasPrefix(raw, proxyproto.SIGV2) {
		if !checksumHolds(raw) {
			return nil, errProxyChecksum
		}
		if raw[proxyV2Family] == byte(proxyproto.UNSPEC) && raw[proxyV2Command] == byte(proxyproto.PROXY) {
			raw[proxyV2Command] = byte(proxyproto.LOCAL) // without addresses it says no more than that, and the library refuses it
		}
	}
	in := bufio.NewReaderSize(bytes.NewReader(raw), len(raw))
	h, err := proxyproto.Read(in)
	if err == nil && in.Buffered() > 0 { // the header says that it goes on
		err = proxyproto.ErrInvalidLength
	}
	if err != nil {
		return nil, fmt.Errorf("the header is malformed: %w", err)
	}
	return h, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// proxyAddresses is how many octets addresses take in version 2, by family.
var proxyAddresses = map[byte]int{0: 0, 1: 2 * (4 + 2), 2: 2 * (16 + 2), 3: 2 * 108}

// checksumHolds checks the CRC32c of a whole header of version 2, if it has one: it is of the header with zeros in that place.
func checksumHolds(raw []byte) bool {
	for at := proxyV2Head + proxyAddresses[raw[proxyV2Family]>>4]; at+3 <= len(raw); {
		end := at + 3 + int(binary.BigEndian.Uint16(raw[at+1:]))
		if proxyproto.PP2Type(raw[at]) != proxyproto.PP2_TYPE_CRC32C || end > len(raw) {
			at = end
			continue
		}
		value := raw[at+3 : end]
		if len(value) != crc32.Size {
			return false
		}
		want := binary.BigEndian.Uint32(value)
		clear(value)
		holds := crc32.Checksum(raw, castagnoli) == want
		binary.BigEndian.PutUint32(value, want)
		return holds
	}
	return true
}
