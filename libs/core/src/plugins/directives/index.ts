export type { DirectiveEvent } from '../../contracts/directive.js';
export type { PerformedDirective } from '../../contracts/tool.js';
export type {
  DirectiveDeclaration,
  RawDirectiveDeclaration,
} from '../../tools/decorators/directive-declaration.js';
export type { DirectiveOptions } from './directive-options.js';
export { DirectiveError } from './directive-error.js';
export { DirectiveService } from './directive.service.js';
export type { DirectiveErrorCode } from './directive-error.js';
export type { DirectiveFilter, DirectiveFinding, DirectiveOperator } from './directive.service.js';
export { DIRECTIVE_STATUSES } from '@toolloop/protocol';
export type {
  DirectiveEventType,
  DirectiveRequest,
  DirectiveStatus,
  DirectiveView,
} from '@toolloop/protocol';
