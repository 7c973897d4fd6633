import type { Schema } from './json.js';
import { isIdKey } from './result.entities.js';
import { resolved, typeOf } from './schema.check.js';
import { stem, stemsOf, wordsOf } from './words.js';

/** What kind of value a property's name asks for. */
export type Sense = 'id' | 'name' | 'place' | 'query' | 'body' | 'email' | 'url' | 'day' | 'time' | 'number' | 'other';

/** One argument that takes a value: a property, or a property of a property. */
export interface Leaf {
  readonly path: readonly string[];
  readonly schema: Schema;
  /** The schema `$ref`s are resolved against. */
  readonly root: Schema;
  readonly required: boolean;
  readonly type: string | undefined;
  readonly sense: Sense;
  readonly stems: ReadonlySet<string>;
  readonly descriptionStems: ReadonlySet<string>;
  /** Small words that announce the value: "to" before a destination, "under" before a maximum. */
  readonly cues: ReadonlySet<string>;
}

/** The arguments of a tool, one level of nested objects opened. */
export function leavesOf(root: Schema): Leaf[] {
  return propertiesOf(root).flatMap(([name, schema]) => {
    const required = root.required?.includes(name) ?? false;
    const inner = typeOf(schema) === 'object' ? propertiesOf(schema, root) : [];
    if (inner.length === 0) return [leafOf([name], schema, root, required)];
    return inner.map(([key, node]) => leafOf([name, key], node, root, required && (schema.required?.includes(key) ?? false)));
  });
}

function propertiesOf(schema: Schema, root = schema): [string, Schema][] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, node]) => {
    const found = resolved(node, root);
    return typeof found === 'boolean' ? [] : [[name, found]];
  });
}

function leafOf(path: readonly string[], schema: Schema, root: Schema, required: boolean): Leaf {
  const name = path.join(' ');
  const words = wordsOf(name).map(stem);
  return {
    path,
    schema,
    root,
    required,
    type: typeOf(schema),
    sense: senseOf(path.at(-1) ?? '', schema),
    stems: new Set(words),
    descriptionStems: new Set(stemsOf(schema.description ?? '')),
    cues: new Set(CUES.filter(([about]) => about.some((word) => words.includes(stem(word)))).flatMap(([, cues]) => cues)),
  };
}

const split = (text: string): string[] => text.split(' ');

/** Words of a property's name, and the kind of value they ask for; the first row that fits decides. */
const SENSES: readonly (readonly [Sense, readonly string[]])[] = [
  ['email', split('email mail')],
  ['url', split('url uri link website')],
  ['day', split('date day birthday deadline due')],
  ['time', split('time at')],
  ['query', split('query q search term keyword phrase question prompt topic word')],
  ['body', split('message body text content comment note reason description summary detail task todo')],
  [
    'place',
    split(
      'city location place country address town region where room area station airport origin destination from to source target zone timezone',
    ),
  ],
  [
    'name',
    split('name title label person user owner author artist who contact company brand team customer recipient employee member guest'),
  ],
];

const FORMAT_SENSES: ReadonlyMap<string, Sense> = new Map([
  ['email', 'email'],
  ['uri', 'url'],
  ['date', 'day'],
  ['date-time', 'day'],
  ['time', 'time'],
  ['uuid', 'id'],
]);

/** The kind of value a property of this name and schema asks for. */
export function senseOf(name: string, schema: Schema): Sense {
  const type = typeOf(schema);
  const byFormat = FORMAT_SENSES.get(schema.format ?? '');
  if (byFormat) return byFormat;
  if (isIdKey(name)) return 'id';
  if (type === 'number' || type === 'integer') return 'number';
  const words = wordsOf(name).toReversed().map(stem);
  const bySense = words.map((word) => SENSES.find(([, known]) => known.map(stem).includes(word))?.[0]).find((sense) => sense !== undefined);
  return bySense ?? 'other';
}

const CUES: readonly (readonly [about: readonly string[], cues: readonly string[]])[] = [
  [split('from origin source departure start since'), split('from between since')],
  [split('to destination target arrival recipient end until language'), split('to into until and till')],
  [split('city location place country room area address town region venue restaurant hotel zone timezone'), split('in at near')],
  [split('date day when'), split('on for')],
  [split('time'), split('at')],
  [split('author artist creator'), split('by')],
  [split('topic subject about'), split('about on regarding')],
  [split('reason'), split('because')],
  [split('min minimum least'), split('over above least minimum between more exceeding')],
  [split('max maximum most budget'), split('under below most maximum less and up within')],
  [split('limit count top size take n results number'), split('top first last latest recent limit')],
  [split('quantity amount count'), split('add order buy put')],
];

/** Whether a number property says how many results are wanted. */
export function isLimit({ stems }: Leaf): boolean {
  return ['limit', 'top', 'count', 'size', 'take', 'result'].some((word) => stems.has(word));
}
