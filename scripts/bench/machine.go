package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gatebook/scripts/harness"
)

// machine is where the figures come from. What is not known is empty.
type machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	OS     string `json:"os"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	// Load is the load average of the last minute, as the system writes it:
	// figures of a machine that has other work are poor.
	Load string `json:"load"`
	// Dir is where the data was, FileSystem and Disk what it lies on.
	Dir        string `json:"dir"`
	FileSystem string `json:"file_system"`
	Disk       string `json:"disk"`
	// Fsync is the median of writing 4 KiB and one fsync, in microseconds.
	Fsync int64 `json:"fsync_us"`
}

func machineFacts(dir string) (machine, error) {
	m := machine{
		CPU: after("/proc/cpuinfo", "model name"), Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH,
		Go: runtime.Version(), Dir: filepath.Dir(dir),
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = text(u.Release[:])
	}
	if raw, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load = strings.Fields(string(raw) + " ?")[0]
	}
	m.FileSystem, m.Disk = mountOf(dir)
	var err error
	m.Fsync, err = fsync(dir)
	return m, err
}

// text is a C string.
func text(b []byte) string {
	before, _, _ := bytes.Cut(b, []byte{0})
	return string(before)
}

// after is the value of the first line "key : value" of a file.
func after(file, key string) string {
	raw, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(raw)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// mountOf gives type and source of the file system that dir is on: the longest
// mount point above it.
func mountOf(dir string) (kind, source string) {
	raw, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", ""
	}
	longest := -1
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if len(f) < 3 || len(f[1]) < longest {
			continue
		}
		if f[1] == "/" || dir == f[1] || strings.HasPrefix(dir, f[1]+"/") {
			longest, source, kind = len(f[1]), f[0], f[2]
		}
	}
	return kind, source
}

// fsync measures the disk without any of our own code.
func fsync(dir string) (int64, error) {
	f, err := os.CreateTemp(dir, "fsync-")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	block := make([]byte, 4096)
	var took []time.Duration
	for range 200 {
		began := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, fmt.Errorf("fsync in %s: %w", dir, err)
		}
		took = append(took, time.Since(began))
	}
	return micros(harness.Quantile(took, 50)), nil
}
