/**
 * Reads a condition that asks for nothing but the presence of its own property, such as
 * `(order) => order.until !== undefined` or `(_, value) => value != null`. Undefined for any other:
 * it is read and not run, since it may ask for anything.
 */
export function presenceCondition(
  condition: unknown,
  property: string,
): PresenceCondition | undefined {
  const [parameters, expression] = /^[\w$]+$/.test(property) ? partsOf(condition) : [];
  if (expression === undefined || parameters === undefined) return undefined;
  const asked = new Set(
    expression.split('&&').map((part) => askedBy(part.trim(), namesOf(parameters, property))),
  );
  if (asked.has(undefined)) return undefined;
  return asked.has('absent') || asked.has('either') ? 'optional' : 'nullable';
}

/** The source of a function of one expression: its parameters and the expression. */
const ARROW = /^\(?([^()=]*)\)?\s*=>\s*(?:\{\s*return\s+([^;{}]+);?\s*\}|([^;{}]+))$/;

const FUNCTION = /^function\b[^(]*\(([^()]*)\)\s*\{\s*return\s+([^;{}]+);?\s*\}$/;

const NOTHING = String.raw`(?:undefined|void 0)`;

/**
 * The value that a condition of `@ValidateIf()` lets pass unchecked: an absent one (`optional`), or
 * null alone (`nullable`).
 */
export type PresenceCondition = 'optional' | 'nullable';

/** Returns the parameters and the expression of a function; nothing for one that has more to it. */
function partsOf(condition: unknown): readonly (string | undefined)[] {
  if (typeof condition !== 'function') return [];
  const source = Function.prototype.toString.call(condition).replaceAll(/\s+/g, ' ').trim();
  const [, parameters = '', ...expressions] = ARROW.exec(source) ?? FUNCTION.exec(source) ?? [];
  return /^[\w$, ]*$/.test(parameters)
    ? [parameters, expressions.find((one) => one !== undefined)]
    : [];
}

/** Returns the expressions that stand for the value of a property, as patterns. */
function namesOf(parameters: string, property: string): string {
  const [object = '', value = ''] = parameters.split(',').map((one) => one.trim());
  const name = escaped(property);
  const own = [`${escaped(object)}(?:\\?)?\\.${name}`, `${escaped(object)}\\[['"]${name}['"]\\]`];
  return `(?:${[...(object === '' ? [] : own), ...(value === '' ? [] : [escaped(value)])].join('|')})`;
}

function escaped(name: string): string {
  return name.replaceAll('$', String.raw`\$`);
}

/** Tells which value a comparison asks to be none of; undefined where it asks for anything else. */
function askedBy(part: string, value: string): 'absent' | 'null' | 'either' | undefined {
  const bare = part.replace(/^\((.*)\)$/, '$1').trim();
  const isComparison = (operator: string, other: string): boolean =>
    new RegExp(`^${value} ?${operator} ?${other}$`).test(bare);
  if (isComparison('!=', `(?:null|${NOTHING})`)) return 'either';
  if (
    isComparison('!==', NOTHING) ||
    new RegExp(`^typeof ${value} ?!==? ?['"]undefined['"]$`).test(bare)
  )
    return 'absent';
  return isComparison('!==', 'null') ? 'null' : undefined;
}
