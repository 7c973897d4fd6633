export type { OutputDeclaration, OutputShape } from '../decorators/llm-tool.decorator.js';
export type {
  ClientToolDeclaration,
  RawInput,
  RawToolClass,
  RawToolDeclaration,
  RawToolSettings,
  StandardInput,
  SubRunInput,
  SubRunToolDeclaration,
} from '../decorators/raw-tool.js';
export type {
  ToolFieldOptions,
  ToolParamOptions,
} from '../decorators/tool-parameters.decorator.js';
export type { ToolDescription, ToolSelection } from './tool-catalog.js';
export { ToolRegistry } from './tool-registry.js';
export type { BuildStats, RegistryStats } from './tool-registry.js';
