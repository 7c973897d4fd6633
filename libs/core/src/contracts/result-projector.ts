import type { Type } from '@nestjs/common';
import type { Audience, JsonValue } from '@toolloop/protocol';

/**
 * Turns a tool's live result into the JSON one audience may see. Throws when the result is not what
 * the tool declared.
 */
export interface ResultProjector {
  /** The class whose exposed properties are all that leaves; absent where no class is declared. */
  readonly declared?: Type;
  /**
   * `shown` is told of every object of a class and the JSON that was made of it, which is its own
   * and may be added to.
   */
  project(value: unknown, audience: Audience, shown?: ProjectionObserver): JsonValue;
  /**
   * Projects for model and ui, of one value where no class in it shows them otherwise; absent where
   * each is projected by itself.
   */
  projectBoth?(value: unknown, shown?: ProjectionObserver): BothProjections;
}

/**
 * Under this name the model reads of an entity what can be called on it; see `availableOperations`
 * of the execution options.
 */
export const OPERATIONS_KEY = '_availableOperations';

/** Told of every object of a class in a result, and of the JSON that is shown of it. */
export type ProjectionObserver = (source: object, json: Record<string, JsonValue>) => void;

/** The projections of a result for its two readers. */
export interface BothProjections {
  readonly model: JsonValue;
  readonly ui: () => JsonValue;
}
