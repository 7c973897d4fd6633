import type { Type } from '@nestjs/common';
import { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import type { ToolMethod } from '../decorators/tool-metadata.js';

/** A method that is a tool, and who stands for its class in the container. */
export interface LayeredMethod {
  readonly type: Type;
  readonly method: ToolMethod;
  /** The provider itself, or the host of an entity class; absent for what no module provides. */
  readonly wrapper?: InstanceWrapper<object>;
  /** True if an instance of `type` stands for what the wrapper holds, which is of another class. */
  readonly isStandIn?: boolean;
  /** Classes of interceptors that are left out. @default those that its decorator names */
  readonly except?: readonly unknown[] | undefined;
}

/** A method of what a module provides. */
export type ProvidedMethod = LayeredMethod & Required<Pick<LayeredMethod, 'wrapper'>>;
