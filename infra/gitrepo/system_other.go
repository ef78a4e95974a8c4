//go:build !unix

package gitrepo

import "os/exec"

const nonBlocking = 0

func inGroup(*exec.Cmd) {}

func endGroup(*exec.Cmd) {}
