export { ToolSources, APPLICATION_TENANT } from './tool-sources.js';
export { sourceAnswer, type SourceAnswerParts } from '../../contracts/attachment.js';
export { sourceTool } from './source-tool.js';
export type { SourceToolDeclaration } from './source-tool.js';
export type {
  QuarantinedTool,
  RefusedTool,
  SourceOptions,
  SourceStatus,
  SourceTool,
} from '../../contracts/source.js';
