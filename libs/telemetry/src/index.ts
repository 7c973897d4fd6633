export type { MetricsExporter, TelemetryContent, TelemetryOptions } from './telemetry-options.js';
export { mcpTracing } from './mcp-tracing.js';
export { TelemetryModule } from './telemetry.module.js';
