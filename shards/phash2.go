package shards

import "encoding/binary"

// PhashRange is the range of erlang:phash2 without one given, which is also what
// RabbitMQ's x-modulus-hash uses: values are below it.
const PhashRange = 1 << 27

// The Erlang runtime hashes terms with Bob Jenkins' 1996 mix and tells kinds of
// terms apart by multiples of the golden ratio constant.
const (
	golden       = 0x9e3779b9
	phashNilTag  = 2                        // the runtime's number for []
	phashNilMul  = golden * 2 & 0xffffffff  // its multiple for the end of a list
	phashBinMul  = golden * 13 & 0xffffffff // its multiple for binaries
	phashNilOnly = 3468870702               // the hash of [] when nothing came before
	phashBlock   = 12                       // bytes mixed at a time
)

// PhashState is erlang:phash2 over a list of binaries, one Add per element, so
// that routing key, CC keys and BCC keys need no slice. The zero value is the
// empty list.
type PhashState uint32

// Phash2 returns erlang:phash2 of the list of keys with range 2^27. It does not
// allocate.
func Phash2(keys ...[]byte) uint32 {
	var s PhashState
	for _, key := range keys {
		s = s.Add(key)
	}
	return s.Sum()
}

// Add returns the state after one more key, which is not kept.
func (s PhashState) Add(key []byte) PhashState {
	init := uint32(s) + phashBinMul
	if len(key) == 0 {
		return PhashState(init)
	}
	return PhashState(blockHash(key, init))
}

// Sum returns the hash of the keys added so far, below 2^27.
func (s PhashState) Sum() uint32 {
	if s == 0 {
		return phashNilOnly % PhashRange
	}
	_, _, h := jenkinsMix(phashNilMul+phashNilTag, phashNilMul, uint32(s))
	return h % PhashRange
}

// blockHash is the runtime's hash of a byte string.
func blockHash(key []byte, init uint32) uint32 {
	a, b, c := uint32(golden), uint32(golden), init
	rest := key
	for len(rest) >= phashBlock {
		a += binary.LittleEndian.Uint32(rest)
		b += binary.LittleEndian.Uint32(rest[4:])
		c += binary.LittleEndian.Uint32(rest[8:])
		a, b, c = jenkinsMix(a, b, c)
		rest = rest[phashBlock:]
	}
	// The lowest byte of c is taken by the length: of the rest, bytes 8 to 10 go
	// above it.
	var tail [phashBlock]byte
	copy(tail[:], rest)
	a += binary.LittleEndian.Uint32(tail[:])
	b += binary.LittleEndian.Uint32(tail[4:])
	c += uint32(len(key)) + binary.LittleEndian.Uint32(tail[8:])<<8
	_, _, c = jenkinsMix(a, b, c)
	return c
}

// jenkinsMix mixes three words reversibly.
func jenkinsMix(a, b, c uint32) (uint32, uint32, uint32) {
	a = (a - b - c) ^ c>>13
	b = (b - c - a) ^ a<<8
	c = (c - a - b) ^ b>>13
	a = (a - b - c) ^ c>>12
	b = (b - c - a) ^ a<<16
	c = (c - a - b) ^ b>>5
	a = (a - b - c) ^ c>>3
	b = (b - c - a) ^ a<<10
	c = (c - a - b) ^ b>>15
	return a, b, c
}
