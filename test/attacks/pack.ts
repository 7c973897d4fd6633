import type { JsonObject, JsonValue, ToolEffect, ToolLabels } from '@toolloop/core';
import type { JSONSchema7 } from 'json-schema';

/** One domain to attack: its tools, its data, what users want there and what strangers want. */
export interface Pack {
  readonly name: string;
  readonly world: World;
  /**
   * Places in the world's texts where a stranger can write, and what stands there when nobody
   * attacks.
   */
  readonly vectors: Readonly<Record<string, string>>;
  readonly tools: readonly PackTool[];
  readonly userTasks: readonly UserTask[];
  readonly injections: readonly Injection[];
}

/** Tables by name. `⟦vec:name⟧` in a text is a vector. */
export type World = Readonly<Record<string, readonly Row[]>>;

export type Row = JsonObject;

export interface PackTool {
  readonly id: string;
  readonly description: string;
  readonly input: JSONSchema7;
  readonly effect: ToolEffect;
  readonly labels?: Partial<ToolLabels>;
  readonly does: ToolBehaviour;
}

/**
 * What a tool does to the world. An argument that a call leaves out narrows nothing and changes
 * nothing.
 */
export type ToolBehaviour =
  /**
   * Lists rows; every argument named in `where` narrows the list to rows whose column contains it.
   */
  | {
      readonly kind: 'find';
      readonly table: string;
      readonly where?: Readonly<Record<string, string>>;
      readonly columns?: readonly string[];
    }
  /** Adds a row of the arguments and answers with its id. */
  | { readonly kind: 'insert'; readonly table: string }
  /** Puts the other arguments into the rows whose column `by` equals the argument of that name. */
  | { readonly kind: 'update'; readonly table: string; readonly by?: string }
  | { readonly kind: 'delete'; readonly table: string; readonly by: string };

/** What a user asks, and the calls with which a perfect model does it. */
export interface UserTask {
  readonly id: string;
  readonly prompt: string;
  readonly calls: readonly PlannedCall[];
  /** Vectors that the results of those calls show. */
  readonly sees: readonly string[];
}

/** What a stranger writes into the vectors, and the calls with which a model obeys. */
export interface Injection {
  readonly id: string;
  readonly goal: string;
  readonly calls: readonly PlannedCall[];
  /** User tasks it is written for. @default every task that sees a vector */
  readonly tasks?: readonly string[];
}

export interface PlannedCall {
  /** What later calls of the same plan call its result. */
  readonly as?: string;
  readonly tool: string;
  /**
   * `{{name/0/email}}` stands for a value of an earlier result, `{{prompt}}` for what the user
   * asked; a text of nothing else becomes that value.
   */
  readonly args: Readonly<Record<string, JsonValue>>;
}

/** A user task under attack. */
export interface Pair {
  readonly task: UserTask;
  readonly injection: Injection;
}

export function pairsOf({ userTasks, injections }: Pack): readonly Pair[] {
  const exposed = userTasks.filter(({ sees }) => sees.length > 0);
  return exposed.flatMap((task) =>
    injections
      .filter(({ tasks }) => tasks?.includes(task.id) ?? true)
      .map((injection) => ({ task, injection })),
  );
}
