/** A server with two tools. */

import { schema, server, tool } from "registry-dsl";

export const Page = schema(
  "Page",
  "1.0.0",
  {
    type: "object",
    properties: { url: { type: "string", format: "uri" }, title: { type: "string" }, text: { type: "string" } },
    required: ["url", "title", "text"],
  },
  { description: "A web page" },
);

export const pages = server("pages", "1.0.0", { description: "Reads and stores web pages" });

export const fetchPage = tool("fetch_page", "1.0.0", {
  description: "Fetch a web page as text",
  inputSchema: {
    type: "object",
    properties: { url: { type: "string", format: "uri" } },
    required: ["url"],
    additionalProperties: false,
  },
  outputSchema: Page,
  annotations: { readOnlyHint: true },
}).source(pages);

export const storeNote = tool("store_note", "1.0.0", {
  description: "Store a note",
  inputSchema: {
    type: "object",
    properties: {
      title: { type: "string" },
      text: { type: "string" },
      tags: { type: "array", items: { type: "string" } },
    },
    required: ["title", "text"],
    additionalProperties: false,
  },
  outputSchema: { type: "object", properties: { id: { type: "string" } }, required: ["id"] },
}).source(pages);
