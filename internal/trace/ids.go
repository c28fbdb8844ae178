package trace

import (
	"crypto/sha256"
	"encoding/hex"
)

// ID returns the identifier of a run's trace: 32 hexadecimal digits.
func ID(run string) string { return hex.EncodeToString(traceOf(run)) }

func traceOf(run string) []byte {
	sum := sha256.Sum256([]byte("responder trace\x00" + run))
	return sum[:16]
}

// rootKey is the key of the span of the run itself.
const rootKey = ""

// spanOf returns the identifier of a span of a run: of the state, the effect or
// the question with that key.
func spanOf(run, key string) []byte {
	sum := sha256.Sum256([]byte("responder span\x00" + run + "\x00" + key))
	return sum[:8]
}
