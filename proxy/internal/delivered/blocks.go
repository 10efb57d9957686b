package delivered

import "sync"

// Sizes of blocks, in bytes. Smaller and larger ones are left to the garbage collector.
const (
	blockStep  = 16 << 10
	leastBlock = 32 << 10
	mostBlock  = 1 << 20
)

// blocks are what blobs were made of, by their size in steps. Most records are acknowledged soon, and without them each answer would be garbage soon
// after it came.
var blocks [mostBlock/blockStep + 1]sync.Pool

// block is an empty slice with room for n bytes.
func block(n int) []byte {
	if n < leastBlock || n > mostBlock {
		return make([]byte, 0, n)
	}
	steps := (n + blockStep - 1) / blockStep
	if b, ok := blocks[steps].Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, steps*blockStep)
}

func giveBlock(b []byte) {
	if n := cap(b); n >= leastBlock && n <= mostBlock && n%blockStep == 0 {
		blocks[n/blockStep].Put(&b)
	}
}
