//go:build !unix

package mcpclient

import "os/exec"

func inGroup(*exec.Cmd) {}

func terminate(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

func endGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
