import { type Finding, isRecord, visible } from '@toolloop/protocol';
import { areHeadersSound, hasHeaderArguments } from './header-arguments.js';
import { definitionOf, hashOf, type ToolDefinition } from './tool-pins.js';

/** The list of a server. */
export interface OfferedTools {
  /** The tools by the names that the server gives them. */
  readonly tools: ReadonlyMap<string, OfferedTool>;
  /** The number of entries without a name, which no one could call. */
  readonly nameless: number;
  /** True if the list had more pages than are read. */
  readonly isCut: boolean;
}

/** A reason for which a tool is in quarantine. */
export type Problem = Omit<Finding, 'at'>;

/**
 * A tool as a server lists it now, judged alone: its definition, or the reason why it cannot be
 * used.
 */
export type OfferedTool = OfferedDefinition | { readonly problem: Problem };

/** A definition that can be compared with its pin. */
export interface OfferedDefinition {
  readonly definition: ToolDefinition;
  readonly hash: string;
}

export const NOTHING_OFFERED: OfferedTools = { tools: new Map(), nameless: 0, isCut: false };

/** An entry of a list. */
interface Listed {
  readonly name: string | undefined;
  readonly offered: OfferedTool;
  /** The same for entries that say the same. */
  readonly key: string;
}

/** A list while its pages come. */
export class OfferedPages {
  private readonly tools = new Map<string, OfferedTool>();
  private readonly keys = new Set<string>();
  private nameless = 0;

  /**
   * Takes a page, and returns false for one that only repeats the pages before it: its server gives
   * the same one for every cursor.
   *
   * @throws {TypeError} For what is no list. Null is an empty one, as some languages write it.
   */
  add(page: unknown): boolean {
    if (page !== null && !Array.isArray(page))
      throw new TypeError('Its answer has no list of tools.');
    const given: readonly unknown[] = page ?? [];
    const fresh = given.map((entry) => listedOf(entry)).filter(({ key }) => !this.keys.has(key));
    for (const one of fresh) this.take(one);
    for (const { key } of fresh) this.keys.add(key);
    return fresh.length > 0;
  }

  /** Returns the list as far as it has come. */
  read(isCut: boolean): OfferedTools {
    return { tools: this.tools, nameless: this.nameless, isCut };
  }

  private take({ name, offered }: Listed): void {
    if (name === undefined) this.nameless += 1;
    else this.tools.set(name, this.tools.has(name) ? { problem: listedTwice(name) } : offered);
  }
}

function listedOf(entry: unknown): Listed {
  const name =
    isRecord(entry) && typeof entry['name'] === 'string' && entry['name'] !== ''
      ? entry['name']
      : undefined;
  const offered = offeredOf(entry);
  return {
    name,
    offered,
    key: JSON.stringify([name, 'hash' in offered ? offered.hash : offered.problem.problem]),
  };
}

/** A schema may be deeper than the stack, which is a matter of its tool alone. */
function offeredOf(entry: unknown): OfferedTool {
  try {
    const definition = definitionOf(entry);
    if (!definition) return { problem: UNREADABLE };
    const { inputSchema } = definition;
    return hasHeaderArguments(inputSchema) && !areHeadersSound(inputSchema)
      ? { problem: WRONG_HEADERS }
      : { definition, hash: hashOf(definition) };
  } catch {
    return { problem: UNREADABLE };
  }
}

const UNREADABLE: Problem = {
  problem: 'Its inputSchema is no JSON Schema that can be read.',
  remedy: 'Have the server mended.',
};

const WRONG_HEADERS: Problem = {
  problem: 'It copies arguments into headers of the request otherwise than the protocol has it.',
  remedy: 'Have the server mended.',
};

function listedTwice(tool: string): Problem {
  return {
    problem: `The server lists two tools named "${visible(tool)}".`,
    remedy: 'Have the server mended.',
  };
}
