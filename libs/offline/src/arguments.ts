import type { JsonObject, JsonValue } from '@toolloop/protocol';
import { accepts, resolved, typeOf, type Schema } from './json-schema.js';
import { names, range, type Mention, type Question, type Token } from './question.js';
import { MOST_INSTANCES, type Instance, type Situation } from './situation.js';
import type { ToolProfile } from './tools.js';
import { isIdKey, plainText } from './values.js';
import { NEGATIONS, stem, wordsOf } from './words.js';

/** A required argument without a value, and the things among which the user has to decide. */
export interface Missing {
  readonly name: string;
  readonly description: string;
  readonly choices: readonly string[];
}

interface Slot {
  readonly name: string;
  readonly schema: Schema;
  readonly root: Schema;
  readonly required: boolean;
  readonly asksFor: 'id' | 'email' | 'url' | 'date' | 'number' | 'text';
  readonly stems: readonly string[];
}

export interface Need {
  readonly profile: ToolProfile;
  readonly missing: readonly Missing[];
}

export interface Filling {
  /**
   * Argument objects ready to be sent; several when the user named several values; none when
   * something is missing.
   */
  readonly variants: readonly JsonObject[];
  readonly missing: readonly Missing[];
  readonly used: readonly Mention[];
  /** The sum of their fits, 0 for none. */
  readonly fit: number;
}

/**
 * A value that could fill an argument, how well it fits, and where in the user's words it stands.
 */
interface Candidate {
  readonly slot: Slot;
  readonly value: JsonValue;
  readonly fit: number;
  readonly tokens: readonly number[];
  readonly mentions: readonly Mention[];
}

/** An argument with its values, each for a call of its own. */
interface Filled {
  readonly slot: Slot;
  readonly values: readonly JsonValue[];
  readonly mentions: readonly Mention[];
}

/** Fills a tool's arguments from the user's words, then from the schema. */
export function fillArguments(
  profile: ToolProfile,
  { id, entity }: Instance,
  situation: Situation,
): Filling {
  const root = profile.spec.inputSchema;
  const instanceNames =
    profile.instanceId === undefined ? [] : [id.toLowerCase(), ...(entity?.texts ?? [])];
  const slots = slotsOf(root);
  const candidates = slots.flatMap((slot) => candidatesFor(slot, situation, instanceNames));
  const chosen = assigned(candidates.filter((one) => one.fit >= leastFit(one, profile)));
  const filled = slots.flatMap((slot): Filled[] => {
    const own = chosen.find((one) => one.slot === slot);
    if (own) return [withJoined(own, candidates, chosen)];
    return slot.required ? [{ slot, values: givenBy(slot), mentions: [] }] : [];
  });
  const several = filled.find(({ values }) => values.length > 1);
  const variants = (several?.values ?? [null]).slice(0, MOST_INSTANCES).map((value): JsonObject => {
    const known = filled.filter(({ values }) => values.length > 0);
    return Object.fromEntries(
      known.map(({ slot, values: [first = null] }) => [
        slot.name,
        slot === several?.slot ? value : first,
      ]),
    );
  });
  const valid = variants.filter((args) => accepts(root, args, root));
  const unfilled = filled.filter(({ values }) => values.length === 0).map(missingOf);
  const missing =
    unfilled.length + valid.length > 0
      ? unfilled
      : [{ name: 'arguments', description: '', choices: [] }];
  return {
    variants: missing.length > 0 ? [] : valid,
    missing,
    used: filled.flatMap(({ mentions }) => mentions),
    fit: chosen.reduce((sum, { fit }) => sum + fit, 0),
  };
}

const FORMATS: Readonly<Record<string, Slot['asksFor']>> = {
  email: 'email',
  uri: 'url',
  url: 'url',
  date: 'date',
  uuid: 'id',
};

function slotsOf(root: Schema): Slot[] {
  return Object.entries(root.properties ?? {}).flatMap(([name, node]): Slot[] => {
    const schema = resolved(node, root);
    if (typeof schema === 'boolean') return [];
    const stems = wordsOf(name).map(stem);
    return [
      {
        name,
        schema,
        root,
        stems,
        required: root.required?.includes(name) ?? false,
        asksFor: askedBy(name, schema),
      },
    ];
  });
}

function askedBy(name: string, { format = '', ...schema }: Schema): Slot['asksFor'] {
  if (isIdKey(name)) return 'id';
  const isNumber = ['number', 'integer'].includes(typeOf(schema) ?? '');
  return FORMATS[format] ?? (isNumber ? 'number' : (FORMATS[wordsOf(name).at(-1) ?? ''] ?? 'text'));
}

/** The fit of each kind of mention for what an argument asks for; what is not here never fits. */
const FITS: Readonly<Record<Mention['kind'], Partial<Record<Slot['asksFor'], number>>>> = {
  quoted: { text: 1.5, id: 0.8 },
  name: { text: 1 },
  phrase: { text: 0.8 },
  id: { id: 1.5, text: 0.5, number: 0.3 },
  number: { number: 0.8, id: 0.7, text: 0.1 },
  email: { email: 1.5, text: 0.5 },
  url: { url: 1.5, text: 0.5 },
  date: { date: 1.5, text: 0.5 },
};

function candidatesFor(
  slot: Slot,
  situation: Situation,
  instanceNames: readonly string[],
): Candidate[] {
  const { schema, root, required, asksFor } = slot;
  const type = typeOf(schema);
  if (schema.enum || type === 'boolean') return literalCandidates(slot, situation);
  if (type === 'object' || type === 'array') return [];
  const { question, unlocated } = situation;
  const isSpent = (mention: Mention): boolean =>
    !required && names(mention) && !unlocated.includes(mention);
  const isFree = (mention: Mention): boolean =>
    !isSpent(mention) && !instanceNames.includes(mention.value.toLowerCase());
  return question.mentions.filter(isFree).flatMap((mention): Candidate[] => {
    const fit = FITS[mention.kind][asksFor];
    if (fit === undefined || (asksFor === 'id' && mention.value.includes(' '))) return [];
    const forms = [mention.value, mention.value.toUpperCase(), Number(mention.value)];
    const value = forms.find((form) => accepts(schema, form, root));
    const likeness = schema.pattern === undefined ? fit : Math.max(fit, 0.5) + 1;
    const tokens = range(mention.first, mention.last);
    return value === undefined
      ? []
      : [
          {
            slot,
            value,
            tokens,
            mentions: [mention],
            fit: likeness + contextFit(slot, mention, situation),
          },
        ];
  });
}

/**
 * The values that a schema names itself, where the user says them: one of an enum, or `true` for a
 * boolean's name.
 */
function literalCandidates(slot: Slot, { question }: Situation): Candidate[] {
  const { schema, name, root } = slot;
  const { tokens, mentions } = question;
  const switched = {
    [name.replace(/^(?:is|in|has)(?=[A-Z])|Only$/g, '')]: true,
    ...(name === 'on' && { off: false }),
  };
  const literals = schema.enum
    ? schema.enum.map((value) => [plainText(value), value] as const)
    : Object.entries(switched);
  return literals.flatMap(([text, value]): Candidate[] => {
    const at = saidAt(text, tokens);
    const isDenied = tokens
      .slice(Math.max(0, (at[0] ?? 0) - 2), at[0])
      .some(({ lower }) => NEGATIONS.has(lower));
    if (at.length === 0 || isDenied || !accepts(schema, value, root)) return [];
    const used = mentions.filter((mention) => names(mention) && at.includes(mention.first));
    return [{ slot, value, tokens: at, mentions: used, fit: 1.5 + at.length / 10 }];
  });
}

/** The tokens that say a text; none where no run of them does. */
function saidAt(text: string, tokens: readonly Token[]): number[] {
  const spoken = tokens.flatMap(({ value }, token) =>
    wordsOf(value).map((word) => ({ stem: stem(word), token })),
  );
  const wanted = wordsOf(text).map(stem);
  const start = spoken.findIndex((_, from) =>
    wanted.every((word, offset) => spoken[from + offset]?.stem === word),
  );
  return start < 0 ? [] : spoken.slice(start, start + wanted.length).map(({ token }) => token);
}

/**
 * Rates the words around a value for an argument: the argument's own name speaks for it, the name
 * of another thing or a plural behind an id against it.
 */
function contextFit(slot: Slot, mention: Mention, { question, vocabulary }: Situation): number {
  const before = wordsBefore(mention, question);
  const named = slot.stems.filter((one) => before.some(({ lower }) => stem(lower) === one)).length;
  const isSaid = slot.stems.some((one) => question.tokens.some(({ stems }) => stems.includes(one)));
  const isOther =
    slot.stems.length > 1 &&
    named === 0 &&
    before.some(({ stems }) => stems.some((one) => vocabulary.has(one)));
  const isCount =
    mention.kind === 'number' && /[^s]s$/.test(question.tokens[mention.last + 1]?.lower ?? '');
  return (
    Math.min(named, 2) +
    (isSaid ? 0.5 : 0) -
    (slot.asksFor === 'id' && (isOther || isCount) ? 1 : 0)
  );
}

const MOST_WORDS_BEFORE = 4;

function wordsBefore({ first }: Mention, { tokens, mentions }: Question): readonly Token[] {
  const previous = Math.max(
    -1,
    ...mentions.filter((other) => other.last < first).map(({ last }) => last),
  );
  return tokens.slice(previous + 1, first).slice(-MOST_WORDS_BEFORE);
}

/**
 * The least fit for a value; an optional argument needs a better reason, but a search without one
 * would find everything.
 */
function leastFit({ slot, mentions }: Candidate, { isReadOnly, isSearch }: ToolProfile): number {
  if (slot.required) return 0.4;
  const isSought = mentions.some(({ kind }) => ['name', 'quoted', 'phrase'].includes(kind));
  return isReadOnly && isSearch && isSought && slot.asksFor === 'text' ? 0.4 : 1.2;
}

/** Gives each argument its best value and each value to one argument, the surest pairs first. */
function assigned(candidates: readonly Candidate[]): Candidate[] {
  const chosen: Candidate[] = [];
  for (const candidate of candidates.toSorted((one, other) => other.fit - one.fit)) {
    const isTaken = chosen.some(
      ({ slot, tokens }) =>
        slot === candidate.slot || tokens.some((token) => candidate.tokens.includes(token)),
    );
    if (!isTaken) chosen.push(candidate);
  }
  return chosen;
}

/**
 * Adds the names that the user joined to the one that fills an argument: they are wanted the same
 * way.
 */
function withJoined(
  { slot, value, mentions }: Candidate,
  candidates: readonly Candidate[],
  chosen: readonly Candidate[],
): Filled {
  const [own] = mentions;
  const used = new Set(chosen.flatMap((one) => one.mentions));
  const isJoined = (other: Mention): boolean =>
    other.kind === own?.kind && other.group === own.group && names(other) && !used.has(other);
  const joined = candidates.filter((one) => one.slot === slot && one.mentions.some(isJoined));
  const values = new Set([value, ...joined.map((one) => one.value)]);
  return {
    slot,
    values: [...values],
    mentions: [...mentions, ...joined.flatMap((one) => one.mentions)],
  };
}

function givenBy({ schema, root }: Slot): JsonValue[] {
  const given = [
    schema.const,
    schema.default,
    schema.enum?.length === 1 ? schema.enum[0] : undefined,
  ];
  return given
    .flatMap((value) => (value !== undefined && accepts(schema, value, root) ? [value] : []))
    .slice(0, 1);
}

function missingOf({ slot: { name, schema } }: Filled): Missing {
  const description = schema.enum
    ? `one of ${schema.enum.map(String).join(', ')}`
    : (schema.description ?? '');
  return { name, description, choices: [] };
}
