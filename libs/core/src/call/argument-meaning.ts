import { isJsonList, isJsonObject, type JsonObject, type JsonValue } from '@toolloop/protocol';
import { canonicalJson } from '../schema/canonical-json.js';
import { UUID } from '../schema/uuid.js';
import type { ReadArguments } from './call.js';

/**
 * Writes the meaning of arguments, the same for those which only read differently: what the tool's
 * class has made of them, with moments in one time zone and texts in one form of Unicode. Undefined
 * if it cannot be told. What a class hides is compared by what was sent.
 */
export function meaningOf({
  built,
  args,
}: Pick<ReadArguments, 'built' | 'args'>): string | undefined {
  try {
    return canonicalJson(meaningIn({ built, sent: args, level: 0 }) ?? null);
  } catch {
    return undefined; // a getter of the application's may throw
  }
}

/** Deeper than any arguments; what a class builds of them may be a circle. */
const MOST_LEVELS = 100;

/** A value among the arguments. */
interface Place {
  readonly built: unknown;
  /** The value that was sent for it. */
  readonly sent: JsonValue | undefined;
  readonly level: number;
}

/** Returns the meaning of a value; undefined for one that is left out. */
function meaningIn(place: Place): JsonValue | undefined {
  const { built, level } = place;
  if (level > MOST_LEVELS) throw new RangeError('The arguments are nested too deeply.');
  if (typeof built === 'string') return meaningOfText(built);
  if (typeof built === 'bigint') return `${built}n`;
  if (typeof built === 'number') return Number.isFinite(built) ? built : String(built);
  if (built === null || typeof built === 'boolean') return built;
  if (typeof built === 'object') return meaningOfObject(place, built);
  return built === undefined ? undefined : meaningAsSent(place);
}

function meaningAsSent({ sent, level }: Place): JsonValue | undefined {
  return meaningIn({ built: sent, sent, level: level + 1 });
}

function meaningOfObject(place: Place, built: object): JsonValue | undefined {
  if (built instanceof Date) return meaningOfText(built.toISOString());
  if (Array.isArray(built)) return listOf(place, built, isJsonList(place.sent) ? place.sent : []);
  if (built instanceof Map || built instanceof Set) return listOf(place, [...built], []);
  const toJson: unknown = Reflect.get(built, 'toJSON');
  if (typeof toJson === 'function')
    return meaningIn({ ...place, built: Reflect.apply(toJson, built, []), level: place.level + 1 });
  const { sent } = place;
  if (isJsonObject(sent)) return membersOf(place, built, sent);
  const shown = membersOf(place, built, {});
  return sent === undefined ? shown : [shown, meaningAsSent(place) ?? null];
}

function listOf(
  { level }: Place,
  built: readonly unknown[],
  sent: readonly JsonValue[],
): JsonValue {
  return built.map(
    (item, index) => meaningIn({ built: item, sent: sent[index], level: level + 1 }) ?? null,
  );
}

/** The members that a class has made, and those that were sent and that it does not show. */
function membersOf({ level }: Place, built: object, sent: JsonObject): JsonValue {
  const names = [...new Set([...Object.keys(built), ...Object.keys(sent)])];
  const areApart = new Set(names.map((name) => name.normalize())).size === names.length;
  const entries = names.flatMap((name): (readonly [string, JsonValue])[] => {
    const value: unknown = Object.hasOwn(built, name) ? Reflect.get(built, name) : sent[name];
    const meaning = meaningIn({ built: value, sent: sent[name], level: level + 1 });
    return meaning === undefined ? [] : [[areApart ? name.normalize() : name, meaning]];
  });
  return Object.fromEntries(entries);
}

const MOMENT = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,3}(\d*))?(?:Z|[+-]\d\d:\d\d)$/i;

/**
 * Returns a text in the one form that stands for all in which it may be written. A moment without a
 * time zone is none.
 */
function meaningOfText(text: string): string {
  const [match, finer = ''] = MOMENT.exec(text) ?? [];
  const time = match === undefined ? NaN : Date.parse(match);
  // a date has no room for the digits behind the milliseconds
  if (!Number.isNaN(time))
    return `${new Date(time).toISOString().slice(0, -1)}${finer.replace(/0+$/, '')}Z`;
  return UUID.test(text) ? text.toLowerCase() : text.normalize();
}
