import type { ModuleMetadata, Type } from '@nestjs/common';
import type { LoopProfile } from '../contracts/loop-request.js';
import type { RawTool } from '../decorators/raw-tool.js';

/** The options of `forFeature` of one module; found among the providers at bootstrap. */
export class ToolFeature {
  constructor(readonly options: ToolFeatureOptions) {}
}

/** The contribution of a feature module to the loop. */
export interface ToolFeatureOptions {
  /** Classes marked `@ToolProvider()` whose instances bring tools. Classes reached through an `output` need not be named. */
  readonly entities?: readonly Type[];
  /** Modules that the entities' guards, pipes, interceptors and filters need. */
  readonly imports?: NonNullable<ModuleMetadata['imports']>;
  /** Tools that are no methods of providers: functions and classes of any origin. */
  readonly tools?: readonly RawTool[];
  /** Named loops: what their runs have in common. `@InjectToolLoop('support')` injects one, in any module. */
  readonly loops?: Readonly<Record<string, LoopProfile>>;
}
