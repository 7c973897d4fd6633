// Drives the clients of others against an application, whose address is the first argument, and prints what each of them understood.
import { agUiPlays } from './ag-ui.mjs';
import { assistantUiPlays } from './assistant-ui.mjs';
import { useChatPlays } from './use-chat.mjs';

const told = { useChat: await useChatPlays(), agUi: await agUiPlays(), ...(await assistantUiPlays()) };
process.stdout.write(JSON.stringify(told), () => process.exit());
