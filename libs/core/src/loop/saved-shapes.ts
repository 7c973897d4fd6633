/** Where a value is not what its reader relies on, such as `value.state.messages[0].role`; undefined where all of it is. */
export type Shape = (value: unknown, at: string) => string | undefined;

type Fields = Readonly<Record<string, Shape>>;

/** An entry that has the parts of a run in it which have changed; lists have what was added. */
export function wrongInPart(part: unknown): string | undefined {
  return parts(part, 'value') ?? known(part);
}

/** A whole run: with every part without which it cannot go on. */
export function wrongInRun(run: unknown): string | undefined {
  return whole(run, 'run') ?? known(run);
}

/** What became of a call, as an entry of its own. */
export function wrongInCall(call: unknown): string | undefined {
  return outcome(call, 'value') ?? optional({ spent: list(fields({})) })(call, 'value');
}

/** An entry of a sub-run. */
export function wrongInSubRunEntry(entry: unknown): string | undefined {
  return fields({ toolCallId: text, value: fields({}) })(entry, 'value') ?? optional({ args: fields({}) })(entry, 'value');
}

/** What the user added. */
export function wrongInInput(input: unknown): string | undefined {
  return fields({ content: text })(input, 'value');
}

const text: Shape = (value, at) => (typeof value === 'string' ? undefined : at);
const number: Shape = (value, at) => (typeof value === 'number' ? undefined : at);
const flag: Shape = (value, at) => (typeof value === 'boolean' ? undefined : at);
const present: Shape = (value, at) => (value === undefined ? at : undefined);
const rolesOrAll: Shape = (value, at) => (value === 'all' ? undefined : list(text)(value, at));

function list(of: Shape = present): Shape {
  return (value, at) => (Array.isArray(value) ? firstOf(value, (one, index) => of(one, `${at}[${index}]`)) : at);
}

function pair(second: Shape): Shape {
  return (value, at) => (Array.isArray(value) && value.length === 2 ? (text(value[0], at) ?? second(value[1], at)) : at);
}

/** An object that has them all. */
function fields(required: Fields): Shape {
  return (value, at) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return at;
    const held = new Map<string, unknown>(Object.entries(value));
    return firstOf(Object.entries(required), ([name, shape]) => shape(held.get(name), `${at}.${name}`));
  };
}

/** An object in which they are what they must be, where they are there. */
function optional(some: Fields): Shape {
  return fields(Object.fromEntries(Object.entries(some).map(([name, shape]) => [name, orAbsent(shape)])));
}

function both(one: Shape, other: Shape): Shape {
  return (value, at) => one(value, at) ?? other(value, at);
}

function orAbsent(shape: Shape): Shape {
  return (value, at) => (value === undefined ? undefined : shape(value, at));
}

function firstOf<Value>(values: readonly Value[], wrong: (value: Value, index: number) => string | undefined): string | undefined {
  for (const [index, value] of values.entries()) {
    const at = wrong(value, index);
    if (at !== undefined) return at;
  }
  return undefined;
}

const usage = fields({ inputTokens: number, outputTokens: number });
const record = fields({ toolCallId: text, id: text, startedAt: text, endedAt: text });
const outcome = both(
  fields({ record, content: present }),
  optional({ isPending: flag, entities: list(), noticed: list(pair(list(text))), begun: fields({ saved: fields({}), args: fields({}) }) }),
);
const toolCall = fields({ toolCallId: text, name: text, arguments: text });
const answer = fields({ text, reasoning: text, calls: list(toolCall), citations: list(), finishReason: text, usage });
const pending = both(
  fields({ answer, outcomes: list(outcome), isPlanned: flag }),
  optional({
    offered: list(text),
    limit: fields({ reason: text }),
    begun: list(fields({ toolCallId: text, saved: fields({}), args: fields({}), record: fields({}) })),
  }),
);

const STATE: Fields = {
  state: fields({
    step: number,
    messages: list(fields({ role: text })),
    usage,
    records: list(record),
    text,
    corrections: number,
    emptyAnswers: number,
  }),
  counts: fields({ perTool: list(pair(number)), identical: list(pair(number)), refusals: number }),
  spent: list(fields({})),
};

const PLACE: Fields = {
  requestId: text,
  sequence: number,
  past: number,
  approvals: fields({ asked: list(pair(text)), remembered: list(pair(text)) }),
  handles: list(pair(text)),
  instances: list(text),
  sentTools: list(text),
  tools: both(
    fields({ order: list(text), injected: list(text), entities: list(fields({ tools: list(text) })), gone: list(pair(text)) }),
    optional({ keptAway: list(text) }),
  ),
  policies: list(fields({})),
};

const MORE: Fields = {
  conversationId: text,
  pending,
  inputs: fields({ taken: number, waiting: list(text) }),
  innerSteps: number,
  hasUnknownCost: flag,
  roles: rolesOrAll,
};

const parts = both(fields(STATE), optional({ ...PLACE, ...MORE }));
const whole = both(fields({ ...STATE, ...PLACE }), optional(MORE));

const NAMES = new Set(Object.keys({ ...STATE, ...PLACE, ...MORE }));

/** A name that we do not know is one that we do not heed: the run would go on without what it says. */
function known(run: unknown): string | undefined {
  const names = typeof run === 'object' && run !== null ? Object.keys(run) : [];
  return names.find((name) => !NAMES.has(name));
}
