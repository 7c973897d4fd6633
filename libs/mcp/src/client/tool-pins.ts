import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { canonicalDeclaration, sha256, toJsonObject } from '@toolloop/core/internal';
import {
  ConfigurationError,
  type Finding,
  isRecord,
  type JsonObject,
  type ToolSpec,
} from '@toolloop/protocol';

/** The definition of a tool, as far as a model or a policy could be deceived by a change of it. */
export interface ToolDefinition {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema: Schema;
  readonly outputSchema?: Schema;
  readonly annotations?: JsonObject;
}

/** A schema of others may be anything: it is narrowed before it is used. */
type Schema = ToolSpec['inputSchema'];

/** A definition that a person has read, and its hash. */
export interface ToolPin {
  readonly hash: string;
  readonly definition: ToolDefinition;
}

/** The pins of one server, or of one of its connections. */
interface PinSet {
  /** The way to the server when they were made: its address, or the exact command. */
  readonly endpoint: string;
  readonly tools: Readonly<Record<string, ToolPin>>;
}

const VERSION = 1;
const TITLE_OF_FILE =
  'The definitions of tools of MCP servers that were read and pinned. Made by "toolloop mcp pin"; review its changes like code.';

/**
 * Reads the parts of a tool that are pinned; undefined for what is no tool, or has an input that is
 * no schema. Everything else that a server says of it counts for nothing, and a part that is not of
 * its type is absent. A tool that declares no input takes any object.
 */
export function definitionOf(tool: unknown): ToolDefinition | undefined {
  if (!isRecord(tool)) return undefined;
  const { name, title, description, outputSchema, annotations } = tool;
  const inputSchema = tool['inputSchema'] ?? NO_INPUT;
  if (typeof name !== 'string' || name === '' || !isRecord(inputSchema)) return undefined;
  return {
    name,
    ...(typeof title === 'string' && { title }),
    ...(typeof description === 'string' && { description }),
    inputSchema: toJsonObject(inputSchema),
    ...(isRecord(outputSchema) && { outputSchema: toJsonObject(outputSchema) }),
    ...(isRecord(annotations) && { annotations: toJsonObject(annotations) }),
  };
}

const NO_INPUT: Schema = { type: 'object' };

/** Returns the SHA-256 of a definition, the same for any order of its keys. */
export function hashOf({ name, inputSchema, ...rest }: ToolDefinition): string {
  const { title = null, description = null, outputSchema = null, annotations = null } = rest;
  return sha256(
    canonicalDeclaration({ name, title, description, inputSchema, outputSchema, annotations }),
  );
}

/**
 * The file of pins. It is never written by the application: only by the command that a person runs.
 */
export class PinFile {
  private constructor(private readonly sets: Readonly<Record<string, PinSet>>) {}

  /**
   * Reads a file; one that does not exist has no pins. @throws {ConfigurationError} For a file that
   * is none, or whose hashes do not fit its definitions.
   */
  static read(path: string): PinFile {
    if (!existsSync(path)) return new PinFile({});
    const { sets, findings } = readSets(path);
    if (findings.length > 0) throw new ConfigurationError(findings);
    return new PinFile(sets);
  }

  /**
   * Returns the pins of a connection to a server, which are those of the server where the
   * connection has none of its own.
   */
  of(server: string, connectionId?: string): PinSet | undefined {
    const own = connectionId === undefined ? undefined : this.sets[keyOf(server, connectionId)];
    return own ?? (Object.hasOwn(this.sets, server) ? this.sets[server] : undefined);
  }

  /** Returns the file with other pins for a server, or for one of its connections. */
  with(server: string, connectionId: string | undefined, set: PinSet): PinFile {
    return new PinFile({ ...this.sets, [keyOf(server, connectionId)]: set });
  }

  /** Writes the file at once, so that no reader sees half of it. */
  write(path: string): void {
    const json = {
      about: TITLE_OF_FILE,
      version: VERSION,
      servers: sorted(this.sets, ({ endpoint, tools }) => ({
        endpoint,
        tools: sorted(tools, (pin) => pin),
      })),
    };
    const draft = `${path}.${process.pid}.tmp`;
    writeFileSync(draft, `${JSON.stringify(json, null, 2)}\n`);
    renameSync(draft, path);
  }
}

function keyOf(server: string, connectionId: string | undefined): string {
  return connectionId === undefined ? server : `${server}@${connectionId}`;
}

function sorted<Value, Written>(
  values: Readonly<Record<string, Value>>,
  written: (value: Value) => Written,
): Record<string, Written> {
  const names = Object.keys(values).toSorted();
  return Object.fromEntries(
    Object.entries(values)
      .toSorted(([one], [other]) => names.indexOf(one) - names.indexOf(other))
      .map(([name, value]) => [name, written(value)]),
  );
}

const AGAIN = 'Restore the file from version control, or write it anew with "toolloop mcp pin".';

function readSets(path: string): {
  readonly sets: Record<string, PinSet>;
  readonly findings: readonly Finding[];
} {
  const json = parsed(path);
  const servers = isRecord(json) && json['version'] === VERSION ? json['servers'] : undefined;
  if (!isRecord(servers))
    return { sets: {}, findings: [{ at: path, problem: 'It is no file of pins.', remedy: AGAIN }] };
  const findings: Finding[] = [];
  const sets = Object.entries(servers).flatMap(([key, set]) => {
    const read = readSet(set, `${path} ${key}`, findings);
    return read ? [[key, read] as const] : [];
  });
  return { sets: Object.fromEntries(sets), findings };
}

function readSet(set: unknown, at: string, findings: Finding[]): PinSet | undefined {
  if (!isRecord(set) || typeof set['endpoint'] !== 'string' || !isRecord(set['tools'])) {
    findings.push({ at, problem: 'It has no endpoint or no tools.', remedy: AGAIN });
    return undefined;
  }
  const tools = Object.entries(set['tools']).flatMap(([name, pin]) => {
    const definition = isRecord(pin) ? definitionOf(pin['definition']) : undefined;
    const hash = isRecord(pin) ? pin['hash'] : undefined;
    if (definition?.name === name && hashOf(definition) === hash)
      return [[name, { hash, definition }] as const];
    findings.push({
      at: `${at} ${name}`,
      problem: 'Its hash is not that of its definition, or of its name.',
      remedy: AGAIN,
    });
    return [];
  });
  return { endpoint: set['endpoint'], tools: Object.fromEntries(tools) };
}

function parsed(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}
