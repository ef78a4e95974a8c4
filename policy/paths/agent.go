package paths

import (
	"strings"

	"gatebook/events"
)

// What stands in an agent's folder. The file tools see the workspace alone; the three
// files beside it say who the agent is, and no tool of its own can reach them.
const (
	Agents    = "agents" // the folder of all agents, in the data folder
	workspace = "Workspace"

	Identity = "Identity.md"
	Soul     = "Soul.md"
	Settings = "AgentSettings.json"
)

// AgentFolder is where in a data folder the folder of an agent and its parts are.
// Everybody asks it, so that nobody can mean another place. The zero value is no
// folder.
type AgentFolder struct{ id events.AgentID }

// FolderOf gives the folder of an agent. It refuses what is no id, and an id that is
// the name of a device on some systems.
func FolderOf(id events.AgentID) (AgentFolder, error) {
	if _, err := events.ParseAgentID(string(id)); err != nil {
		return AgentFolder{}, err
	}
	if _, err := Parse(string(id)); err != nil {
		return AgentFolder{}, err
	}
	return AgentFolder{id}, nil
}

// Parts are the names from the data folder to the agent's folder, to be entered one
// by one.
func (a AgentFolder) Parts() []string { return []string{Agents, string(a.id)} }

// Workspace are the names from the data folder to the workspace.
func (a AgentFolder) Workspace() []string { return append(a.Parts(), workspace) }

// String is the workspace below the data folder, for people, with slashes.
func (a AgentFolder) String() string { return strings.Join(a.Workspace(), "/") }
