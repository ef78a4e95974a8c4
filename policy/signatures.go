package policy

import "gatebook/events"

// TODO-IMPLEMENT: replace this file by real implementations in the files of the nouns.

type Compiled struct {
	catalog   Catalog
	digest    events.Digest
	canonical []byte
}

// Compile checks c and makes it fast to ask. nil error or one that wraps ErrCatalog joined of *Fault.
func Compile(c Catalog) (*Compiled, error) { panic("todo") }
func (c *Compiled) Catalog() Catalog       { panic("todo") }
func (c *Compiled) Digest() events.Digest  { panic("todo") }
func (c *Compiled) Canonical() []byte      { panic("todo") } // RFC 8785 bytes
// Limits with the defaults filled in.
func (c *Compiled) Limits() Limits { panic("todo") }

// ParseCatalog reads canonical bytes (from a blob) strictly.
func ParseCatalog(canonical []byte) (Catalog, error) { panic("todo") }

// Builtin is one entry of the closed list of sanctioned built-in tools.
type Builtin struct {
	Name string
	Tier events.Tier
	// Paths says which workspace use each path argument is (later parts).
}

func LookupBuiltin(name string) (Builtin, bool) { panic("todo") }

// Path is a workspace path after the lexical rules.
type Path struct {
	clean  string
	leaves bool
}

// ParsePath: *Malformed error (reject) or a Path, which may Leave the workspace (deny).
func ParsePath(field, raw string) (Path, error) { panic("todo") }
func (p Path) String() string                   { panic("todo") } // clean, slash separated, "." for the root; never set when Leaves
func (p Path) Leaves() bool                     { panic("todo") }

func DecideCall(c *Compiled, req CallRequest, f CallFacts) CallDecision { panic("todo") }

// MayAskOutcome: may this agent with this handle hear of call's outcome: the round, open or ended, of the same conversation.
func MayAskOutcome(agent events.AgentID, handle events.Digest, asked RoundFacts, callRound RoundFacts) bool {
	panic("todo")
}

func BeginRound(c *Compiled, req RoundRequest, f RoundBeginFacts) RoundDecision { panic("todo") }
func EndRound(req RoundEndRequest, round RoundFacts) RoundDecision              { panic("todo") }

// Change is one difference between two catalogs.
type Change struct {
	Path   string
	Text   string // human readable: "agents.alice added (role worker)"
	Widens bool
}

// Compare lists what changed, sorted by path. old may be nil: everything is new and widens.
func Compare(old, new *Compiled) []Change { panic("todo") }

// CatalogRequest is a wish to put a catalog in force.
type CatalogRequest struct {
	By       events.Actor // person or engine
	Approves bool         // came with the person's approving credential
	Next     *Compiled
}

// LoadCatalog: narrowing applies at once; widening needs an approver of the catalog in force (current), or, when current is nil, of next itself. Event: CatalogLoaded. No change: no events, no refusal.
func LoadCatalog(current *Compiled, req CatalogRequest) ([]events.Event, *Refusal) { panic("todo") }

// Enrolments: agents of the catalog that are not enrolled yet -> AgentEnrolled; agents enrolled but not in the catalog -> AgentReleased. released ids never come back: skip.
// (facts per agent come from the views)
type Enrolment struct {
	Agent events.AgentID
	Event events.Event
}

func Enrolments(c *Compiled, known []KnownAgent) []Enrolment { panic("todo") }

type KnownAgent struct {
	Agent    events.AgentID
	Released bool
	Key      events.PublicKey
	Role     string
}

// Identity: whose public key is this, with which account & rights. Pure function over the catalog + agent rows; used by the authenticator.

// Account of the server that a credential belongs to.
type Account string

const (
	AccountAgents   Account = "AGENTS"
	AccountChannels Account = "CHANNELS"
	AccountTools    Account = "TOOLS"
	AccountPeople   Account = "PEOPLE"
)

// Identity is what a verified public key may do on the bus.
type Identity struct {
	Key     events.PublicKey
	Account Account
	Actor   events.Actor
	// Approves: the person's approving key.
	Approves  bool
	Publish   []string // allowed subjects; nothing else
	Subscribe []string // allowed subjects; always the own _INBOX_<id>.>
	// Inbox is the only prefix a reply may be under: "_INBOX_<id>."
	Inbox string
}

// Identities gives the identity of every key that may connect: agents enrolled and not released (from known), channels and people of the catalog.
func Identities(c *Compiled, known []KnownAgent) map[events.PublicKey]Identity { panic("todo") }
