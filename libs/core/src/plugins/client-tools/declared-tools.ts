import { type DeclaredTool, type Finding, isRecord } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import type { ToolCatalog } from '../../catalog/tool-catalog.js';
import type { Tool } from '../../contracts/tool.js';
import { canonicalDeclaration, sha256 } from '../../schema/canonical-json.js';
import { type Form, list, object, optional, partly, TEXT } from '../../schema/saved-form.js';
import { CLIENT_EXPIRES_AFTER_MS } from '../../tools/decorators/client-tool.js';
import {
  type Contribution,
  type CopiedContribution,
  shownId,
} from '../../tools/discovery/contributed-tools.js';
import { SAFE_TOOL_ID } from '../../tools/discovery/tool-names.js';
import { sourceTool } from '../sources/source-tool.js';

/** The tools of a client that a run has, and why it has not the others. */
export interface DeclaredTools {
  readonly tools: readonly Tool[];
  /** The declarations of the tools it has: a run that waits keeps them. */
  readonly declarations: readonly DeclaredTool[];
  readonly refusals: readonly string[];
}

/** The name of the source of all tools that clients declare. */
export const CLIENT_SOURCE = 'client';

/** Takes tools of untrusted sources in; see `LoopSettings`. */
interface Admission {
  copy(given: Tool): CopiedContribution;
  check(copy: Contribution): Contribution;
  hashOtherwisePinned(tool: Tool): string | undefined;
  takeIn(tool: Tool): Tool;
}

/** A declaration, and the tool that it makes. */
interface ReadDeclaration {
  readonly declared: DeclaredTool;
  readonly tool: Tool;
}

/** The tools of a run whose client declares none. */
export const NONE_DECLARED: DeclaredTools = { tools: [], declarations: [], refusals: [] };

/** The declarations as a run that waits keeps them. */
export const SAVED_DECLARATIONS: Form<readonly DeclaredTool[]> = list(
  object<DeclaredTool>({ id: TEXT, description: optional(TEXT), inputSchema: optional(partly()) }),
);

/** The most tools that a request may declare: each is compiled. */
const MOST_DECLARED = 32;
/** The most tools that are remembered: a client declares the same ones with every request. */
const MOST_KNOWN = 500;
/** The words of the application in the place of a description that no one has pinned. */
const UNDESCRIBED = "A tool of the user's client, which describes it only to its user.";

/**
 * Admits the tools that a client declares in its request, which is an untrusted source: only under
 * the ids that the loop lists, never under the id of another tool, with narrowed schemas, and
 * without a word of the client's for the model unless the policy pins the declaration by its hash.
 */
export class DeclaredToolAdmission {
  private readonly known = new Map<string, Contribution>();

  constructor(
    private readonly catalog: ToolCatalog,
    private readonly admission: Admission,
  ) {}

  /**
   * Reads what a client declared, which may be anything. `listed` are the ids that the loop lists.
   */
  admit(given: unknown, listed: readonly string[]): DeclaredTools {
    if (!Array.isArray(given) || given.length === 0) return NONE_DECLARED;
    const read = new Map<string, ReadDeclaration>();
    const refusals: string[] = [];
    for (const one of given.slice(0, MOST_DECLARED)) {
      const admitted = this.admitOne(one, listed, read);
      if (typeof admitted === 'string') refusals.push(admitted);
      else read.set(admitted.declared.id, admitted);
    }
    if (given.length > MOST_DECLARED)
      refusals.push(
        `${given.length - MOST_DECLARED} tools of the client are left out: ${MOST_DECLARED} are read.`,
      );
    const all = [...read.values()];
    return {
      tools: all.map(({ tool }) => tool),
      declarations: all.map(({ declared }) => declared),
      refusals,
    };
  }

  /** Reads one tool, or returns the sentence that says why it is left out. */
  private admitOne(
    given: unknown,
    listed: readonly string[],
    before: ReadonlyMap<string, unknown>,
  ): ReadDeclaration | string {
    const declared = declaredTool(given);
    if (!declared) return refusal('?', 'A tool is { id, description?, inputSchema? }.');
    const problem = this.idProblem(declared.id, listed, before);
    if (problem !== undefined) return refusal(declared.id, problem);
    const tool = this.read(declared);
    return 'spec' in tool
      ? { declared, tool }
      : refusal(declared.id, tool.map((finding) => finding.problem).join(' '));
  }

  /** Finds ids that no client can declare a tool under. */
  findings(listed: readonly string[], at: string): Finding[] {
    return listed.flatMap((id) => {
      const problem = SAFE_TOOL_ID.test(id)
        ? this.takenBy(id)
        : 'It is no id that every model provider accepts.';
      return problem === undefined
        ? []
        : [
            {
              at: `${at} clientTools "${shownId(id)}"`,
              problem,
              remedy: 'Name an id that only clients give a tool.',
            },
          ];
    });
  }

  private takenBy(id: string): string | undefined {
    const isTaken =
      this.catalog.originOf(id) !== undefined ||
      this.catalog.isLookalike(id) ||
      this.catalog.announced.ownerOf(id) !== undefined;
    return isTaken ? 'The application has a tool of this id.' : undefined;
  }

  private idProblem(
    id: string,
    listed: readonly string[],
    before: ReadonlyMap<string, unknown>,
  ): string | undefined {
    if (!listed.includes(id)) return 'Its id is not among the `clientTools` of the loop.';
    if (before.has(id)) return 'It is declared twice.';
    return this.takenBy(id);
  }

  /** Returns the tool, or what is wrong with it. */
  private read(declared: DeclaredTool): Tool | readonly Finding[] {
    const key = sha256(canonicalDeclaration(declared));
    const described = this.known.get(key) ?? this.checked(toolOf(declared));
    this.remember(key, described);
    if (described.problems.length > 0) return described.problems;
    const { tool, at } = described;
    const pinned = this.admission.hashOtherwisePinned(tool);
    if (pinned !== undefined)
      return [
        {
          at,
          problem: `The policy pins another declaration of it; the hash of this one is ${pinned}.`,
          remedy: '',
        },
      ];
    const taken = this.admission.takeIn(tool);
    if (taken.origin.pinned) return taken;
    const quiet = `${key} undescribed`;
    const bare =
      this.known.get(quiet) ??
      this.checked(
        toolOf({
          ...declared,
          description: UNDESCRIBED,
          inputSchema: wordless(declared.inputSchema),
        }),
      );
    this.remember(quiet, bare);
    return bare.problems.length > 0 ? bare.problems : this.admission.takeIn(bare.tool);
  }

  private checked(tool: Tool): Contribution {
    return this.admission.check(this.admission.copy(tool));
  }

  private remember(key: string, contribution: Contribution): void {
    this.known.delete(key);
    this.known.set(key, contribution);
    const [oldest] = this.known.keys();
    if (this.known.size > MOST_KNOWN && oldest !== undefined) this.known.delete(oldest);
  }
}

function declaredTool(given: unknown): DeclaredTool | undefined {
  if (!isRecord(given)) return undefined;
  const { id, description = '', inputSchema = { type: 'object', properties: {} } } = given;
  return typeof id === 'string' && typeof description === 'string' && isRecord(inputSchema)
    ? { id, description, inputSchema }
    : undefined;
}

function toolOf({ id, description, inputSchema = {} }: DeclaredTool): Tool {
  return {
    ...sourceTool({
      id,
      description: description === undefined || description === '' ? UNDESCRIBED : description,
      inputSchema,
      origin: { source: CLIENT_SOURCE, trusted: false },
      idempotent: true, // its one answer is handed on
      invoke: () => Promise.reject(new Error('The tool is called by its client.')),
    }),
    client: { expiresAfterMs: CLIENT_EXPIRES_AFTER_MS },
  };
}

function refusal(id: string, why: string): string {
  return `The client's tool ${shownId(id)} is left out. ${why}`;
}

/** The keywords of a schema whose value is a text for its reader, or an example of one. */
const WORDS = new Set(['title', 'description', '$comment', 'examples', 'default']);

/** The keywords whose members are names, and schemas below them. */
const NAMED = new Set(['properties', '$defs', 'definitions', 'patternProperties']);

/**
 * Copies a schema without the client's words. Names and listed values remain, since they are
 * arguments.
 */
function wordless(schema: JSONSchema7 = {}): JSONSchema7 {
  const copy = withoutWords(schema, false);
  return isRecord(copy) ? copy : {};
}

function withoutWords(value: unknown, isNamed: boolean): unknown {
  if (Array.isArray(value)) return value.map((one) => withoutWords(one, false));
  if (!isRecord(value)) return value;
  const kept = Object.entries(value).filter(([name]) => isNamed || !WORDS.has(name));
  return Object.fromEntries(
    kept.map(([name, one]): [string, unknown] => [
      name,
      withoutWords(one, !isNamed && NAMED.has(name)),
    ]),
  );
}
