package audit

import (
	"os"
	"syscall"

	bolt "go.etcd.io/bbolt"
)

// LetGo gives the pages of the file that were read back to the system's page
// cache. They count as this process's memory until then, and after the start,
// which reads every record, that is the whole file. What is read again comes
// from the page cache. It waits for nobody and nobody waits for it.
func (j *Journal) LetGo() error {
	return j.view(func(tx *bolt.Tx) error { // the map stays where it is while a transaction is open
		page := int64(os.Getpagesize())
		size := (tx.Size() + page - 1) / page * page
		if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, tx.DB().Info().Data, uintptr(size), syscall.MADV_DONTNEED); errno != 0 {
			return os.NewSyscallError("madvise", errno)
		}
		return nil
	})
}
