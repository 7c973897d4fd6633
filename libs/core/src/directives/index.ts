export type { DirectiveEvent } from '../contracts/directive.js';
export type { PerformedDirective } from '../contracts/tool.js';
export type {
  DirectiveDeclaration,
  RawDirectiveDeclaration,
} from '../decorators/llm-tool.decorator.js';
export type { DirectiveOptions } from '../loop/run-directives.js';
export { DirectiveError, DirectiveService } from './directive.service.js';
export type {
  DirectiveErrorCode,
  DirectiveFilter,
  DirectiveFinding,
  DirectiveOperator,
  DirectiveView,
} from './directive.service.js';
export { DIRECTIVE_STATUSES } from '@toolloop/protocol';
export type { DirectiveEventType, DirectiveRequest, DirectiveStatus } from '@toolloop/protocol';
