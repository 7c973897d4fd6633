import { isRecord } from '@toolloop/protocol';

/** Tells whether a schema declares an argument that is copied into a header of the request. */
export function hasHeaderArguments(schema: object): boolean {
  return JSON.stringify(schema).includes(`"${HEADER}"`);
}

const HEADER = 'x-mcp-header';
const TOKEN = /^[\w!#$%&'*+.^`|~-]+$/;
const TYPES: ReadonlySet<unknown> = new Set(['string', 'integer', 'boolean']);
/** The keywords whose value is data, and no schema. */
const DATA: ReadonlySet<string> = new Set(['default', 'const', 'enum', 'examples']);

/**
 * Tells whether each of them is declared as the protocol has it: a text, a whole number or a switch
 * that is reached by properties alone, with a header of its own.
 */
export function areHeadersSound(schema: object): boolean {
  const headers = new Set<string>();
  const isSound = (node: unknown, isReached: boolean): boolean => {
    if (Array.isArray(node)) return node.every((one) => isSound(one, false));
    if (!isRecord(node)) return true;
    if (Object.hasOwn(node, HEADER) && !(isReached && node !== schema && isTaken(node, headers)))
      return false;
    return Object.entries(node).every(([keyword, part]) => {
      if (keyword === 'properties' && isRecord(part))
        return Object.values(part).every((one) => isSound(one, isReached));
      return DATA.has(keyword) || isSound(part, false);
    });
  };
  return isSound(schema, true);
}

function isTaken(
  { [HEADER]: header, type }: Readonly<Record<string, unknown>>,
  headers: Set<string>,
): boolean {
  if (
    typeof header !== 'string' ||
    !TOKEN.test(header) ||
    !TYPES.has(type) ||
    headers.has(header.toLowerCase())
  )
    return false;
  headers.add(header.toLowerCase());
  return true;
}
