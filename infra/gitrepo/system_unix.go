//go:build unix

package gitrepo

import (
	"os/exec"
	"syscall"
)

// nonBlocking opens what blocks, as a pipe without a writer, at once.
const nonBlocking = syscall.O_NONBLOCK

// inGroup gives cmd a process group of its own. When the context ends, the group is
// told to end, so that git takes its locks away; who does not is killed.
func inGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}

// endGroup kills what is left of the group.
func endGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // nobody left is the usual answer
	}
}
