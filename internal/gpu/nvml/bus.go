package nvml

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/inference-responder/responder/internal/gpu"
)

// PCIBus is the directory in which Linux lists the devices of the PCI bus.
const PCIBus = "/sys/bus/pci/devices"

// nvidiaVendor and the classes identify GPUs: VGA controllers and 3D controllers
// in the PCI code list.
const nvidiaVendor = "0x10de"

var gpuClasses = []string{"0x0300", "0x0302"}

// onBus counts the GPUs on the node's PCI bus that NVIDIA's driver is bound to.
// One that was given to a virtual machine is not this node's. A GPU on the bus
// that the driver does not list is lost.
func onBus(dir string) gpu.Reading[int64] {
	if dir == "" {
		return gpu.Unknown[int64](gpu.NotRead)
	}
	devices, err := os.ReadDir(dir)
	if err != nil {
		return gpu.Unknown[int64](gpu.Failed)
	}
	read := func(device, file string) string {
		data, err := os.ReadFile(filepath.Join(dir, device, file))
		if err != nil {
			return "" // it left while we looked, or has no such thing
		}
		return strings.TrimSpace(string(data))
	}
	n := int64(0)
	for _, d := range devices {
		class := read(d.Name(), "class")
		driver, err := os.Readlink(filepath.Join(dir, d.Name(), "driver"))
		if err != nil || filepath.Base(driver) != "nvidia" || read(d.Name(), "vendor") != nvidiaVendor {
			continue
		}
		for _, c := range gpuClasses {
			if strings.HasPrefix(class, c) {
				n++
			}
		}
	}
	return gpu.Known(n)
}
