import { isJsonObject, type JsonObject, type JsonValue } from '@toolloop/protocol';
import type { ShownResults } from './named-answer.js';
import { objectsIn } from './objects-in.js';

/** A tool that a client says it has. */
export interface DeclaredClientTool {
  readonly id: string;
  readonly description?: string;
  readonly inputSchema?: JsonObject;
}

/**
 * Tells whether a client has given this very result of a call, which it knows by the name of
 * {@link namedCall}.
 */
export function isGiven({ given = [] }: ShownResults, name: string, result: JsonValue): boolean {
  return given.some(
    ({ id, value }) => id === name && JSON.stringify(value) === JSON.stringify(result),
  );
}

/**
 * The tools of a request: a list, also with each tool in `function`, or an object with the tools by
 * their names. A tool without a name is left out; the server decides which of the others it takes.
 *
 * @throws {TypeError} for anything else
 */
export function declaredTools(given: JsonValue | undefined): DeclaredClientTool[] {
  if (!isJsonObject(given)) return objectsIn(given, 'tools').flatMap(declaredTool);
  return Object.entries(given).flatMap(([name, tool]) => {
    if (!isJsonObject(tool)) throw new TypeError(`"tools.${name}" must be an object.`);
    return declaredTool({ ...tool, name });
  });
}

function declaredTool({ function: inner, ...tool }: JsonObject): DeclaredClientTool[] {
  const {
    name: id,
    description,
    parameters,
    inputSchema = parameters,
  } = isJsonObject(inner) ? inner : tool;
  if (typeof id !== 'string') return [];
  return [
    {
      id,
      ...(typeof description === 'string' && { description }),
      ...(isJsonObject(inputSchema) && { inputSchema }),
    },
  ];
}
