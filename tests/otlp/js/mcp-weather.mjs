// An MCP server over stdio with one tool, get_weather.
import { createInterface } from 'node:readline';
const answer = (id, result) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, result }) + '\n');
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  if (method === 'initialize') {
    answer(id, { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'test', version: '1.0.0' } });
  } else if (method === 'tools/list') {
    answer(id, { tools: [{ name: 'get_weather', description: 'Get the weather of a city.', inputSchema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } }] });
  } else if (method === 'tools/call') {
    answer(id, { content: [{ type: 'text', text: `sunny in ${params.arguments.city}` }] });
  } else answer(id, {});
});
