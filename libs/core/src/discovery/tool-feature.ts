import type { Type } from '@nestjs/common';

/** What `forFeature` of one module contributes; found among the providers at bootstrap. */
export class ToolFeature {
  constructor(readonly options: ToolFeatureOptions) {}
}

/** What a feature module adds to the loop. */
export interface ToolFeatureOptions {
  /** Classes marked `@ToolProvider()` whose instances bring tools. Classes reached through an `output` need not be named. */
  readonly entities?: readonly Type[];
}
