/** A copy of a value as JSON has it. A value that JSON cannot hold is told by its kind. */
export function snapshot(value: unknown): unknown {
  if (typeof value === 'function') return '<function>';
  if (typeof value === 'bigint') return String(value);
  return typeof value === 'object' && value !== null ? snapshotOfObject(value) : value;
}

function snapshotOfObject(value: object): unknown {
  if (value instanceof Date) return value.toISOString();
  if (value instanceof AbortSignal) return '<signal>';
  if (value instanceof Error) return { error: value.name, message: value.message };
  if (value instanceof Map || value instanceof Set || Array.isArray(value))
    return [...value].map(snapshot);
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, snapshot(member)]),
  );
}

/** The parts of a text that differ from run to run, each with the name of what takes its place. */
const CHANGING: readonly (readonly [kind: string, pattern: RegExp])[] = [
  ['time', /\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?Z/g],
  ['day', /\b20\d{2}-\d{2}-\d{2}\b/g],
  ['trace', /\b00-[0-9a-f]{32}-[0-9a-f]{16}-0\d\b/g],
  ['id', /(?<![0-9a-z])(?:[a-z]{2,4}_)?[0-9a-f]{32}(?![0-9a-z])/g],
  ['id', /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g],
  ['value', /(?<![\w-])v-[0-9a-z]{8}(?![\w-])/g],
  ['hash', /(?<![\w-])[0-9a-f]{64}(?![\w-])/g],
  ['hash', /(?<![\w-])(?=[\w-]*[A-Z])(?=[\w-]*\d)[\w-]{43}(?![\w-])/g],
];

/** The kinds of which no two are told apart: a time stands still or not as the machine likes. */
const ALIKE: ReadonlySet<string> = new Set(['time', 'day']);

/** The members whose numbers a clock gives. */
const BY_THE_CLOCK = /(?:Ms|At|Until|timestamp|now)$/;
const SINCE_1970 = 1e12;

/**
 * Replaces what differs from run to run: an id by its number in order of appearance, a time by a
 * word.
 */
export class Steadier {
  private readonly known = new Map<string, string>();
  private readonly counts = new Map<string, number>();

  steady(value: unknown, member = ''): unknown {
    if (typeof value === 'string') return this.text(value);
    if (typeof value === 'number')
      return BY_THE_CLOCK.test(member) && isMeasured(member, value) ? '<time>' : value;
    if (Array.isArray(value)) return value.map((item) => this.steady(item, member));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, inner]) => [this.text(name), this.steady(inner, name)]),
    );
  }

  private text(text: string): string {
    return CHANGING.reduce(
      (changed, [kind, pattern]) =>
        changed.replaceAll(pattern, (found) => this.nameOf(kind, found)),
      text,
    );
  }

  private nameOf(kind: string, found: string): string {
    if (ALIKE.has(kind)) return `<${kind}>`;
    const known = this.known.get(found);
    if (known !== undefined) return known;
    const count = (this.counts.get(kind) ?? 0) + 1;
    const name = `<${kind} ${count}>`;
    this.counts.set(kind, count);
    this.known.set(found, name);
    return name;
  }
}

/** A moment, or a duration that was measured. A limit that was configured stays. */
function isMeasured(member: string, value: number): boolean {
  return value > SINCE_1970 || member === 'durationMs' || member.startsWith('ms');
}
