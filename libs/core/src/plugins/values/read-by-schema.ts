import type { JSONSchema7 } from 'json-schema';

/**
 * A result that says by a schema of its own who wrote which field of it: that of its tool holds for
 * other results.
 */
export class ReadBySchema {
  constructor(
    readonly value: object,
    readonly schema: JSONSchema7,
  ) {}
}
