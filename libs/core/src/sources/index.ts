export { ToolSources } from './tool-sources.js';
export { APPLICATION_TENANT } from './tool-sources.js';
export { sourceAnswer, type SourceAnswerParts } from '../contracts/tool-call.js';
export { sourceTool } from '../discovery/contributed-tools.js';
export type { SourceToolDeclaration } from '../discovery/contributed-tools.js';
export type {
  QuarantinedTool,
  RefusedTool,
  SourceOptions,
  SourceStatus,
  SourceTool,
} from '../contracts/source.js';
