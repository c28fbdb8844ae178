package gpu

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Reasons is a mask of clocks event reasons: why a GPU does not run faster.
// It is written as nvidia-smi writes it, in hexadecimal.
type Reasons uint64

// The clocks event reasons of nvml.h 13.0.
const (
	GPUIdle              Reasons = 0x1   // nothing runs
	ApplicationsClocks   Reasons = 0x2   // an administrator's setting; no longer used
	SWPowerCap           Reasons = 0x4   // at the power limit: normal at full load
	HWSlowdown           Reasons = 0x8   // the hardware slows clocks down; may show up briefly on a change of P-state
	SyncBoost            Reasons = 0x10  // waits for another GPU of its sync boost group
	SWThermalSlowdown    Reasons = 0x20  // the driver slows down, too hot
	HWThermalSlowdown    Reasons = 0x40  // the hardware slows down, too hot
	HWPowerBrakeSlowdown Reasons = 0x80  // the power supply or the rack asks for less
	DisplayClocks        Reasons = 0x100 // a display limits the clocks
)

// Classes of reasons.
const (
	Harmful = HWSlowdown | SWThermalSlowdown | HWThermalSlowdown | HWPowerBrakeSlowdown
	Benign  = GPUIdle | ApplicationsClocks | SyncBoost | DisplayClocks
)

var reasonNames = map[Reasons]string{
	GPUIdle: "gpu idle", ApplicationsClocks: "applications clocks setting", SWPowerCap: "software power cap",
	HWSlowdown: "hardware slowdown", SyncBoost: "sync boost", SWThermalSlowdown: "software thermal slowdown",
	HWThermalSlowdown: "hardware thermal slowdown", HWPowerBrakeSlowdown: "hardware power brake", DisplayClocks: "display clocks setting",
}

// Bits returns the mask's single bits, lowest first.
func (r Reasons) Bits() []Reasons {
	var out []Reasons
	for v := uint64(r); v != 0; v &= v - 1 {
		out = append(out, Reasons(1)<<bits.TrailingZeros64(v))
	}
	return out
}

// Names returns the reasons in words; a bit that is not known here by its number.
func (r Reasons) Names() []string {
	var out []string
	for _, b := range r.Bits() {
		if name, ok := reasonNames[b]; ok {
			out = append(out, name)
		} else {
			out = append(out, b.String())
		}
	}
	return out
}

// String is the mask as nvidia-smi prints it.
func (r Reasons) String() string { return fmt.Sprintf("0x%016x", uint64(r)) }

// MarshalText writes the mask in hexadecimal.
func (r Reasons) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a mask in hexadecimal, with its 0x.
func (r *Reasons) UnmarshalText(text []byte) error {
	digits, ok := strings.CutPrefix(string(text), "0x")
	if !ok {
		return fmt.Errorf("clocks event reasons %q: want hexadecimal such as 0x0000000000000040", clip(string(text)))
	}
	v, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		return fmt.Errorf("clocks event reasons %q: want hexadecimal such as 0x0000000000000040", clip(string(text)))
	}
	*r = Reasons(v)
	return nil
}
